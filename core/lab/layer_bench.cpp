// T tokens, H hidden, E experts.
#include "core/lab/layer_bench.h"

#include <algorithm>
#include <cstring>
#include <iterator>

namespace moelab {
namespace {

constexpr std::uint64_t kSeed = 20240229;

// Values that depend on the global row and column only.
Tensor drawn(const Backend& backend, const Tokens& tokens, const LayerCase& c,
             std::string_view stream) {
  const Rng rng(kSeed, stream);
  const Tensor out = backend.empty(c.dtype, {tokens.count(), c.hidden});
  dispatch_real(c.dtype, "layer bench", [&](auto tag) {
    using T = decltype(tag);
    for (Index t = 0; t < tokens.count(); ++t)
      for (Index h = 0; h < c.hidden; ++h) {
        const Index row = tokens.first_row + t / tokens.length, column = t % tokens.length;
        constexpr Index kLongest = 4096;
        const double draw =
            rng.normal(static_cast<std::uint64_t>((row * kLongest + column) * c.hidden + h));
        const bool valid = tokens.valid_T.data<std::uint8_t>()[t] != 0;
        out.data<T>()[t * c.hidden + h] = static_cast<T>(valid ? draw : 1000 * draw);
      }
  });
  return out;
}

Tokens made_tokens(const Backend& backend, const LayerCase& c, const RankContext& ranks) {
  Tokens tokens;
  MOELAB_CHECK(c.rows % ranks.dp->size() == 0, c.rows, " rows over ", ranks.dp->size(), " ranks");
  tokens.rows_global = c.rows;
  tokens.rows = c.rows / ranks.dp->size();
  tokens.first_row = tokens.rows * ranks.dp->rank();
  tokens.length = c.length;
  const Index count = tokens.count();
  tokens.id_T = backend.empty(DType::i32, {count});
  tokens.position_T = backend.empty(DType::i32, {count});
  tokens.document_T = backend.zeros(DType::i32, {count});
  tokens.valid_T = backend.empty(DType::u8, {count});
  for (Index t = 0; t < count; ++t) {
    const Index row = tokens.first_row + t / c.length, column = t % c.length;
    tokens.id_T.data<std::int32_t>()[t] = static_cast<std::int32_t>((7 * row + 3 * column) % 97);
    tokens.position_T.data<std::int32_t>()[t] = static_cast<std::int32_t>(column);
    tokens.valid_T.data<std::uint8_t>()[t] = (c.valid_rows < 0 || row < c.valid_rows) &&
                                             (c.valid_columns < 0 || column < c.valid_columns);
  }
  return tokens;
}

StepFacts made_facts(const LayerCase& c) {
  const Index rows = c.valid_rows < 0 ? c.rows : c.valid_rows;
  const Index columns = c.valid_columns < 0 ? c.length : c.valid_columns;
  std::vector<Index> valid_of_row(static_cast<std::size_t>(c.rows), 0);
  for (Index row = 0; row < rows; ++row) valid_of_row[static_cast<std::size_t>(row)] = columns;
  StepFacts facts;
  facts.valid_tokens_in_step = rows * columns;
  facts.instances_in_step = [rows_global = c.rows, valid_of_row](ScopeSpec spec) {
    return count_instances(spec, rows_global, valid_of_row);
  };
  return facts;
}

double dot(const Tensor& a, const Tensor& b) {
  double sum = 0;
  dispatch_real(a.dtype(), "dot", [&](auto tag) {
    using T = decltype(tag);
    for (Index i = 0; i < a.numel(); ++i)
      sum += static_cast<double>(a.data<T>()[i]) * static_cast<double>(b.data<T>()[i]);
  });
  return sum;
}

double scalar(const Tensor& t) {
  return dispatch_real(t.dtype(), "scalar",
                       [&](auto tag) { return static_cast<double>(t.data<decltype(tag)>()[0]); });
}

MoeLayer::Context layer_context(const LayerCase& c, RankContext& ranks) {
  constexpr double kSpread = 0.5;  // wide enough that no routing is near a tie
  return {ranks, c.dtype, c.hidden, 0, kSpread, kSpread, kSpread, "model.layers.0.mlp"};
}

}  // namespace

LayerBench::LayerBench(const MoeParams& params, const LayerCase& c, RankContext& ranks)
    : case_(c), ranks_(ranks), layer_(params, layer_context(c, ranks)) {
  layer_.parameters([](Parameter& p) { initialize(p, kSeed); });
  const Backend& backend = *ranks.backend;
  tokens_ = made_tokens(backend, c, ranks);
  x_TH_ = drawn(backend, tokens_, c, "x");
  cotangent_TH_ = drawn(backend, tokens_, c, "cotangent");
  StepLoad load;
  for (Index e = 0; e < params.expert_ids(); ++e) load.routed_E.push_back(e % 3 + 1);
  load.kept_E = load.routed_E;
  load.valid_tokens = c.rows * c.length;
  layer_.after_step(load);
}

std::vector<Parameter*> LayerBench::parameters() {
  std::vector<Parameter*> out;
  layer_.parameters([&](Parameter& p) { out.push_back(&p); });
  return out;
}

LayerRun LayerBench::run() {
  for (Parameter* p : parameters()) {
    p->grad = {};
    p->grad_written = false;
  }
  Tape tape(*ranks_.backend);
  return run(tape, true);
}

LayerRun LayerBench::forward() {
  Tape tape(*ranks_.backend, Tape::Mode::forward);
  return run(tape, false);
}

LayerRun LayerBench::run(Tape& tape, bool backward) {
  layer_.begin_step();
  const StepFacts facts = made_facts(case_);
  Moment moment;
  moment.phase = case_.phase;
  moment.seed = kSeed;
  FfnOutput out;
  const auto segment = [&](Tape& t, const std::vector<Variable>& in) {
    const FfnInput input{in[0], tokens_, moment, facts, case_.forced};
    FfnOutput result = layer_.forward(t, input);
    std::ranges::move(layer_.pooled_losses(t, {result.routing.get(), 1}, input),
                      std::back_inserter(result.losses));
    std::vector<Variable> outputs{result.y_TH};
    for (const LossTerm& term : result.losses) outputs.push_back(term.value);
    if (!t.replaying()) out = std::move(result);
    return outputs;
  };
  const Variable x = backward ? tape.input(x_TH_) : tape.constant(x_TH_);
  const std::vector<Variable> outputs =
      case_.recompute ? recompute(tape, {x}, segment) : segment(tape, {x});

  LayerRun result;
  for (const LossTerm& term : out.losses) result.replicated.push_back(term.replicated);
  result.record = out.record;
  result.y_TH = outputs[0].value;
  result.objective = dot(result.y_TH, cotangent_TH_);
  for (std::size_t i = 1; i < outputs.size(); ++i) {
    result.losses.push_back(scalar(outputs[i].value));
    result.objective += result.losses.back();
  }
  if (!backward) return result;
  tape.seed(outputs[0], cotangent_TH_);
  for (std::size_t i = 1; i < outputs.size(); ++i) tape.seed(outputs[i], 1.0);
  tape.backward();
  result.x_grad_TH = tape.grad(x.slot());
  for (const Parameter* p : parameters()) result.gradients.push_back(p->grad);
  return result;
}

void with_ranks(int ranks, int ep, const std::function<void(RankContext&)>& body) {
  const Component<World> world("inproc");
  World::Context context;
  context.ranks = ranks;
  const Topology topology(Degrees{ranks, 1, 1, ep, 1});
  world.make(context)->run([&](Rank& rank) {
    RankContext here = make_rank_context(rank, topology, Backend::cpu(), true);
    body(here);
  });
}

bool same_bits(const Tensor& a, const Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  return a.shape() == b.shape() && a.dtype() == b.dtype() &&
         std::memcmp(a.raw(), b.raw(), a.bytes()) == 0;
}

}  // namespace moelab
