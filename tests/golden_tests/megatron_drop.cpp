// Capacity and dropping against Megatron Core's own numbers. Its final map is kept ∪ filler: where
// it pads to capacity it routes tokens that had not chosen the expert; our filler rows are no
// tokens.
#include <algorithm>

#include "tests/golden_tests/suite.h"
#include "tests/moe/moe_fixture.h"

namespace moelab::test {
namespace {

struct Routed {  // pairs of a routing map, best first, and their weights
  RoutingPlan plan;
  Values weight_P;
};

Routed routed(const Values& map, const Values& weight, Index tokens, Index experts) {
  Routed out;
  out.plan.tokens = tokens;
  out.plan.experts = experts;
  out.plan.offset_T1 = {0};
  for (Index t = 0; t < tokens; ++t) {
    std::vector<Index> chosen;
    for (Index e = 0; e < experts; ++e)
      if (map[static_cast<std::size_t>(t * experts + e)] != 0) chosen.push_back(e);
    const auto at = [&](Index e) { return weight[static_cast<std::size_t>(t * experts + e)]; };
    std::stable_sort(chosen.begin(), chosen.end(), [&](Index a, Index b) { return at(a) > at(b); });
    for (const Index e : chosen) {
      out.plan.expert_P.push_back(static_cast<std::int32_t>(e));
      out.weight_P.push_back(at(e));
    }
    out.plan.offset_T1.push_back(out.plan.pairs());
  }
  out.plan.fate_P.assign(out.plan.expert_P.size(), PairFate::kept);
  out.plan.validate();
  return out;
}

void compare(Comparison& to, const GoldenCase& c, DType dtype) {
  const Index tokens = c.integer("num_tokens"), experts = c.integer("num_experts");
  const Index k = c.integer("router_topk"), rows = c.integer("capacity");
  const double factor = c.number("capacity_factor");
  to.exact("capacity", static_cast<double>(capacity(tokens, k, experts, factor, 0)),
           static_cast<double>(rows));
  const auto backend = Backend::cpu();
  Routed pairs =
      routed(c.tensor("routing_map").values, c.tensor("routing_probs").values, tokens, experts);
  const auto dropper = component<Dropper>("type = \"" + c.text("drop_policy") +
                                          "\"\ncapacity_factor = " + exact(factor) +
                                          "\npad_to_capacity = " + c.text("pad_to_capacity"))
                           .make({experts, k, 0});
  const Tokens meta = make_tokens(*backend, 1, tokens);
  const ScopeMap scope({}, meta, nullptr);
  const Tensor weights = reals(*backend, dtype, {pairs.plan.pairs()}, pairs.weight_P);
  dropper->drop(pairs.plan, weights,
                {meta, {}, 0, experts, k, [&](ScopeSpec) -> const ScopeMap& { return scope; }});
  pairs.plan.validate();

  const Values& map = c.tensor("final_map").values;
  const Values& decided = c.tensor("decided").values;
  const Values& probs = c.tensor("final_probs").values;
  const Values& cotangent = c.tensor("cotangent").values;
  const Values& gradient = c.tensor("grad_probs").values;
  std::vector<Index> kept_theirs(static_cast<std::size_t>(experts), 0), rows_theirs = kept_theirs;
  Values got_map, want_map, got_probs, want_probs, got_gradient, want_gradient;
  for (Index t = 0; t < tokens; ++t)
    for (Index p = pairs.plan.begin(t); p < pairs.plan.end(t); ++p) {
      const auto pair = static_cast<std::size_t>(p);
      const auto at = static_cast<std::size_t>(t * experts + pairs.plan.expert_P[pair]);
      kept_theirs[static_cast<std::size_t>(pairs.plan.expert_P[pair])] += map[at] != 0 ? 1 : 0;
      if (decided[at] == 0) continue;
      const bool kept = pairs.plan.fate_P[pair] == PairFate::kept;
      got_map.push_back(kept ? 1 : 0);
      want_map.push_back(map[at]);
      got_probs.push_back(kept ? pairs.weight_P[pair] : 0);  // weights are passed on as they are
      want_probs.push_back(probs[at]);
      got_gradient.push_back(kept ? cotangent[at] : 0);
      want_gradient.push_back(gradient[at]);
    }
  to.exact("kept", got_map, want_map);
  to.exact("probs", got_probs, want_probs);
  to.exact("gradient", got_gradient, want_gradient);
  const std::vector<Index> kept = pairs.plan.counts_kept();
  to.exact("kept by expert", kept, Values(kept_theirs.begin(), kept_theirs.end()));
  if (!c.flag("pad_to_capacity")) return;
  // Megatron cannot fill beyond the tokens there are.
  for (std::size_t i = 0; i < map.size(); ++i)
    rows_theirs[i % static_cast<std::size_t>(experts)] += map[i] != 0 ? 1 : 0;
  for (std::size_t e = 0; e < kept.size(); ++e) {
    to.exact("filled rows", static_cast<double>(kept[e] + pairs.plan.filler_E[e]),
             static_cast<double>(rows));
    to.exact("Megatron's rows", static_cast<double>(std::min(rows, tokens)),
             static_cast<double>(rows_theirs[e]));
  }
}

Outcome run_case(const GoldenCase& c) {
  c.ignore({"compute_dtype"});
  Comparison to;
  for (const DType dtype : {DType::f64, DType::f32}) compare(to, c, dtype);
  return to.outcome();
}

const RegisterSuite registered{"megatron_drop", run_case};

}  // namespace
}  // namespace moelab::test
