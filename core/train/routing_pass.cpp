// T tokens, P pair slots.
#include "core/train/routing_pass.h"

#include <algorithm>

#include "registry/error.h"

namespace moelab {
namespace {

// This rank's values followed by the next rank's, on every rank.
std::vector<double> of_all_ranks(const Session& session, const std::vector<double>& own) {
  Group& dp = *session.ranks.dp;
  const Backend& backend = *session.ranks.backend;
  const auto ranks = static_cast<Index>(dp.size());
  const Tensor length = backend.empty(DType::i64, {1}),
               lengths = backend.empty(DType::i64, {ranks});
  *length.data<std::int64_t>() = static_cast<Index>(own.size());
  dp.all_gather(length, lengths).wait();
  const auto each = lengths.span<std::int64_t>();
  const Index most = *std::ranges::max_element(each);
  const Tensor padded = backend.zeros(DType::f64, {most});
  const Tensor all = backend.empty(DType::f64, {ranks, most});
  std::ranges::copy(own, padded.data<double>());
  dp.all_gather(padded, all).wait();
  std::vector<double> out;
  for (Index r = 0; r < ranks; ++r)
    out.insert(out.end(), all.data<double>() + r * most,
               all.data<double>() + r * most + each[static_cast<std::size_t>(r)]);
  return out;
}

template <class T>
void join_ranks(const Session& session, std::vector<T>& values) {
  std::vector<double> own;
  for (const T value : values) own.push_back(static_cast<double>(value));
  values.clear();
  for (const double value : of_all_ranks(session, own)) values.push_back(static_cast<T>(value));
}

// Every rank's rows in rank order, which is their global order.
void join_batch(const Session& session, TracedBatch& batch) {
  join_ranks(session, batch.token_T);
  join_ranks(session, batch.valid_T);
  batch.rows = static_cast<Index>(batch.token_T.size()) / batch.length;
  for (TracedLayer& layer : batch.layers) {
    std::vector<Index> count_T;
    for (std::size_t t = 0; t + 1 < layer.offset_T1.size(); ++t)
      count_T.push_back(layer.offset_T1[t + 1] - layer.offset_T1[t]);
    join_ranks(session, count_T);
    layer.offset_T1 = {0};
    for (const Index count : count_T) layer.offset_T1.push_back(layer.offset_T1.back() + count);
    join_ranks(session, layer.expert_P);
    join_ranks(session, layer.weight_P);
    join_ranks(session, layer.fate_P);
  }
}

TracedLayer traced(const RoutingRecord& record) {
  const RoutingPlan& plan = *record.plan;
  TracedLayer out;
  out.layer = record.layer;
  out.experts = record.experts;
  out.offset_T1 = plan.offsets();
  out.expert_P = plan.expert_P;
  out.fate_P = plan.fate_P;
  dispatch_real(record.weight_P.dtype(), "trace", [&](auto zero) {
    const auto weight_P = record.weight_P.span<decltype(zero)>();
    out.weight_P.assign(weight_P.begin(), weight_P.end());
  });
  return out;
}

// Tokens [first, first + count) of a recorded layer.
ForcedRouting cut(const TracedLayer& layer, Index first, Index count) {
  ForcedRouting out;
  const auto at = static_cast<std::size_t>(first);
  const Index begin = layer.offset_T1[at];
  for (std::size_t t = at; t <= at + static_cast<std::size_t>(count); ++t)
    out.offset_T1.push_back(layer.offset_T1[t] - begin);
  out.expert_P.assign(layer.expert_P.begin() + begin,
                      layer.expert_P.begin() + begin + out.offset_T1.back());
  return out;
}

std::string first_difference(const TracedBatch& batch, const Tokens& tokens) {
  if (batch.rows != tokens.rows_global || batch.length != tokens.length)
    return str("has ", batch.rows, " rows of ", batch.length, " tokens, the run ",
               tokens.rows_global, " of ", tokens.length);
  const auto id_T = tokens.id_T.span<std::int32_t>();
  const auto valid_T = tokens.valid_T.span<std::uint8_t>();
  const auto first = static_cast<std::size_t>(tokens.global_id(0));
  for (std::size_t t = 0; t < id_T.size(); ++t) {
    const bool padding = batch.valid_T[first + t] == 0;
    if (padding != (valid_T[t] == 0))
      return str("says that token ", first + t, padding ? " is" : " is no", " padding");
    if (!padding && batch.token_T[first + t] != id_T[t])
      return str("has token ", first + t, " = ", batch.token_T[first + t], ", the run ", id_T[t]);
  }
  return "";
}

}  // namespace

ForwardHooks RoutingPass::hooks() {
  ForwardHooks out;
  if (replay_) out.options = [this](Index m, const Tokens& tokens) { return force(m, tokens); };
  if (replay_ || !folder_.empty())
    out.output = [this](Index m, const Tokens& tokens, const ModelOutput& output) {
      take(m, tokens, output);
    };
  return out;
}

void RoutingPass::refuse(Index m, const std::string& what) const {
  throw Error(ExitCode::data,
              str("cannot replay ", replay_path_, ": micro-batch ", m, " ", what,
                  "; replay routing that was recorded on the same text, batch and experts"));
}

ForwardOptions RoutingPass::force(Index m, const Tokens& tokens) {
  if (m >= static_cast<Index>(replay_->batches.size())) refuse(m, "is missing");
  const TracedBatch& batch = replay_->batches[static_cast<std::size_t>(m)];
  if (const std::string what = first_difference(batch, tokens); !what.empty()) refuse(m, what);
  auto& forced = forced_.emplace_back(static_cast<std::size_t>(session_.model->layers()));
  for (const TracedLayer& layer : batch.layers) {
    if (layer.layer >= session_.model->layers())
      refuse(m, str("has a layer ", layer.layer, "; the model's last is ", forced.size() - 1));
    forced[static_cast<std::size_t>(layer.layer)] = cut(layer, tokens.global_id(0), tokens.count());
  }
  ForwardOptions options;
  options.forced = &forced;
  options.compare_forced = true;
  return options;
}

void RoutingPass::compare(Index m, const ModelOutput& output) {
  for (const auto& record : output.records)
    for (const TracedLayer& layer : replay_->batches[static_cast<std::size_t>(m)].layers) {
      if (layer.layer != record->layer) continue;
      if (layer.experts != record->experts)
        refuse(m, str("has ", layer.experts, " experts in layer ", layer.layer, ", the model ",
                      record->experts));
      differences_[layer.layer].pairs += record->forced.pairs;
      differences_[layer.layer].others += record->forced.others;
    }
}

void RoutingPass::take(Index m, const Tokens& tokens, const ModelOutput& output) {
  if (replay_) compare(m, output);
  if (folder_.empty()) return;
  TracedBatch batch;
  batch.rows = tokens.rows;
  batch.length = tokens.length;
  const auto id_T = tokens.id_T.span<std::int32_t>();
  const auto valid_T = tokens.valid_T.span<std::uint8_t>();
  batch.token_T.assign(id_T.begin(), id_T.end());
  batch.valid_T.assign(valid_T.begin(), valid_T.end());
  for (const auto& record : output.records)
    if (layers_->has(record->layer)) batch.layers.push_back(traced(*record));
  recorded_.dtype = session_.model->spec().dtype;
  recorded_.batches.push_back(std::move(batch));
}

void RoutingPass::sum_differences() {
  // Every layer is asked for: a rank may have had no pairs in one.
  const Index layers = session_.model->layers();
  const Tensor sums = session_.ranks.backend->zeros(DType::i64, {layers, 2});
  for (const auto& [layer, difference] : differences_) {
    sums[layer].data<std::int64_t>()[0] = difference.pairs;
    sums[layer].data<std::int64_t>()[1] = difference.others;
  }
  session_.ranks.dp->all_reduce(sums).wait();
  differences_.clear();
  for (Index layer = 0; layer < layers; ++layer)
    if (const auto* sum = sums[layer].data<std::int64_t>(); sum[0] > 0)
      differences_[layer] = {sum[0], sum[1]};
}

void RoutingPass::finish() {
  const bool shared = phase_ != Phase::inference;  // in generation every rank has the same rows
  if (replay_ && shared) sum_differences();
  if (folder_.empty()) return;
  if (shared)
    for (TracedBatch& batch : recorded_.batches) join_batch(session_, batch);
  recorded_.phase = phase_;
  recorded_.step = step_;
  if (session_.leads()) write_trace(folder_, recorded_);
}

RoutingInstruments::RoutingInstruments(const Session& session, const RunConfig& config,
                                       std::string folder)
    : session_(session),
      folder_(std::move(folder)),
      steps_(IndexSet::parse(config.trace.steps).value()),
      layers_(IndexSet::parse(config.trace.layers).value()),
      from_(config.replay.from) {
  if (!from_.empty()) files_ = find_traces(from_);
}

const TraceFile* RoutingInstruments::recorded(Phase phase, Index step) const {
  // A file that is named itself stands for its phase at any step, except in training.
  const bool alone = files_.size() == 1 && files_.front().path == from_;
  for (const TraceFile& file : files_)
    if (file.phase == phase && (file.step == step || (alone && phase != Phase::train)))
      return &file;
  return nullptr;
}

std::unique_ptr<RoutingPass> RoutingInstruments::pass(Phase phase, Index step) const {
  std::unique_ptr<RoutingPass> out(new RoutingPass(session_, phase, step));
  if (!folder_.empty() && steps_.has(step)) {
    out->folder_ = folder_;
    out->layers_ = layers_;
  }
  if (const TraceFile* file = recorded(phase, step)) {
    out->replay_ = read_trace(file->path);
    out->replay_path_ = file->path;
    out->forced_.reserve(out->replay_->batches.size());  // options point into it
  }
  return out;
}

void RoutingInstruments::note(const RoutingPass& pass) {
  ++(pass.replays() ? replayed_ : free_);
  for (const auto& [layer, difference] : pass.differences()) {
    total_.pairs += difference.pairs;
    total_.others += difference.others;
  }
}

std::string RoutingInstruments::summary() const {
  if (from_.empty()) return "";
  constexpr double kPercent = 100;
  std::string out = str("replay: ", replayed_, " of ", replayed_ + free_,
                        " passes were routed as recorded in ", from_);
  if (total_.pairs > 0)
    out += str("; free routing would have chosen otherwise for ",
               kPercent * static_cast<double>(total_.others) / static_cast<double>(total_.pairs),
               " % of their ", total_.pairs, " pairs");
  return out;
}

}  // namespace moelab
