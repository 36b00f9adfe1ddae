#include "core/train/session.h"

#include <algorithm>
#include <filesystem>
#include <ostream>

#include "core/base/threads.h"
#include "core/checkpoint/safetensors.h"
#include "registry/error.h"

namespace moelab {

Corpus make_corpus(const RunConfig& config) {
  Corpus corpus;
  corpus.tokenizer = config.data.tokenizer.make({});
  corpus.dataset = config.data.dataset.make(
      {config.data.sequence_length, config.train.batch, config.data_seed(), corpus.tokenizer});
  return corpus;
}

DType run_dtype(const RunConfig& config) {
  return config.run.dtype == RunDType::f64 ? DType::f64 : DType::f32;
}

bool has_experts(const RunConfig& config) {
  const auto kinds = config.layer_kinds();
  return std::ranges::any_of(
      kinds, [&](const std::string& kind) { return config.ffn.at(kind).traits().moe; });
}

void run_ranks(const RunConfig& config, int threads, const std::function<void(Rank&)>& body) {
  const auto ranks = static_cast<int>(config.parallel.ranks);
  const auto world =
      config.parallel.world.make({ranks, std::chrono::seconds(config.parallel.timeout_seconds)});
  set_threads(threads);  // the world shares them among its ranks
  world->run(body);
}

Session::Session(const RunConfig& config, const Corpus& corpus, Rank& rank)
    : everyone(rank.everyone()),
      ranks(make_rank_context(rank, Topology(config.degrees()), Backend::create(config.run.device),
                              has_experts(config))) {
  ModelSpec spec;
  spec.section = config.model;
  spec.layers = config.layer_kinds();
  spec.ffn = config.ffn;
  spec.tokens = corpus.tokenizer->vocabulary();
  spec.vocabulary = config.model.vocabulary > 0 ? config.model.vocabulary : spec.tokens;
  spec.dtype = run_dtype(config);
  spec.seed = config.model_seed();
  model = std::make_unique<Transformer>(spec, ranks);
  model->parameters([&](Parameter& p) { parameters.push_back(&p); });
}

Shares weight_shares(const Session& session) {
  Shares shares;
  for (const Parameter* parameter : session.parameters) {
    auto& to = parameter->placement == Placement::expert ? shares.sharded : shares.whole;
    to.insert(to.end(), parameter->pieces.begin(), parameter->pieces.end());
  }
  return shares;
}

Shares state_shares(const Session& session) {
  Shares shares;
  for (StateStore* store : session.model->states())
    for (const auto& [name, tensor] : store->all()) shares.whole.push_back({name, tensor});
  return shares;
}

void load_weights(const Session& session, const Checkpoint& checkpoint) {
  const Shares shares = weight_shares(session);
  load_pieces(checkpoint.file(kModelFile), shares.whole);
  load_pieces(checkpoint.file(kModelFile), shares.sharded);
}

namespace {

// Calls visit(store, name, saved) for what a state file holds of the model's layers; `name` is
// whole.
template <class Visit>
void each_saved_state(const Session& session, const std::string& file, const Visit& visit) {
  const SafetensorsReader reader(file);
  for (StateStore* store : session.model->states())
    for (const auto& [name, entry] : reader.entries())
      if (name.starts_with(store->prefix() + "."))
        visit(*store, name, reader.read(name, *session.ranks.backend));
}

}  // namespace

void load_states(const Session& session, const Checkpoint& checkpoint) {
  each_saved_state(session, checkpoint.file(kStateFile),
                   [&](StateStore& store, const std::string& name, const Tensor& saved) {
                     copy(saved,
                          store.get(*session.ranks.backend, name.substr(store.prefix().size() + 1),
                                    saved.dtype(), saved.shape()));
                   });
}

void adopt_states(const Session& session, const std::string& weights, std::ostream& log) {
  const std::filesystem::path folder = std::filesystem::path(weights).parent_path();
  const std::string file = (folder / kStateFile).string();
  if (!std::filesystem::exists(folder / kMetaFile) || !std::filesystem::exists(file)) return;
  each_saved_state(
      session, file, [&](const StateStore& store, const std::string& name, const Tensor& saved) {
        const auto ours = store.all().find(name);
        if (ours == store.all().end()) {
          if (session.leads()) log << "warning: no component of this recipe keeps " << name << "\n";
          return;
        }
        if (saved.shape() != ours->second.shape() || saved.dtype() != ours->second.dtype())
          throw Error(ExitCode::checkpoint,
                      str(file, ": ", name, " is ", name_of(saved.dtype()), " ",
                          saved.shape().text(), ", this recipe's is ",
                          name_of(ours->second.dtype()), " ", ours->second.shape().text(),
                          "; start from a run with the same experts and dtype, or give its weights "
                          "alone (a copy of ",
                          kModelFile, ")"));
        copy(saved, ours->second);
      });
}

}  // namespace moelab
