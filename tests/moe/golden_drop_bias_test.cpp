// Capacity, dropping and the expert bias against Megatron Core's own numbers.
#include <algorithm>
#include <numeric>

#include "tests/moe/moe_fixture.h"
#include "tests/support/golden.h"

using namespace moelab;
using namespace moelab::test;

namespace {

constexpr double kTolerance = golden_tolerance(DType::f64);
using Values = std::vector<double>;

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

void check_drop(const GoldenCase& c, DType dtype) {
  const Index tokens = c.integer("num_tokens"), experts = c.integer("num_experts");
  const Index k = c.integer("router_topk"), rows = c.integer("capacity");
  const double factor = c.number("capacity_factor");
  CHECK(capacity(tokens, k, experts, factor, 0) == rows);
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
  for (Index t = 0; t < tokens; ++t)
    for (Index p = pairs.plan.begin(t); p < pairs.plan.end(t); ++p) {
      const auto pair = static_cast<std::size_t>(p);
      const auto at = static_cast<std::size_t>(t * experts + pairs.plan.expert_P[pair]);
      kept_theirs[static_cast<std::size_t>(pairs.plan.expert_P[pair])] += map[at] != 0 ? 1 : 0;
      if (decided[at] == 0) continue;
      const bool kept = pairs.plan.fate_P[pair] == PairFate::kept;
      CHECK(kept == (map[at] != 0));
      CHECK((kept ? pairs.weight_P[pair] : 0.0) == probs[at]);  // weights are passed on as they are
      CHECK((kept ? cotangent[at] : 0.0) == gradient[at]);
    }
  for (std::size_t i = 0; i < map.size(); ++i)
    rows_theirs[i % static_cast<std::size_t>(experts)] += map[i] != 0 ? 1 : 0;
  std::vector<Index> kept = pairs.plan.counts_kept();
  CHECK(kept == kept_theirs);
  if (!c.flag("pad_to_capacity")) return;
  // Megatron cannot fill beyond the tokens there are; our filler rows are no tokens.
  for (std::size_t e = 0; e < kept.size(); ++e) {
    CHECK(kept[e] + pairs.plan.filler_E[e] == rows);
    CHECK(rows_theirs[e] == std::min(rows, tokens));
  }
}

void check_rule(const GoldenCase& c) {
  const GoldenTensor& counts = c.tensor("tokens_per_expert");
  const Index steps = counts.size(0), experts = counts.shape.back();
  const Index layers = counts.shape.size() == 3 ? counts.size(1) : 1;
  const auto at = [&](const Values& v, Index step, Index layer) {
    const auto begin = v.begin() + (step * layers + layer) * experts;
    return Values(begin, begin + experts);
  };
  for (Index layer = 0; layer < layers; ++layer) {
    BalancerBench bench(
        "type = \"expert_bias\"\nupdate_rate = " + c.text("expert_bias_update_rate"), experts, 2);
    const auto backend = Backend::cpu();
    copy(reals(*backend, DType::f64, {experts}, at(c.tensor("expert_bias_start").values, 0, layer)),
         bench.balancer().bias());
    for (Index step = 0; step < steps; ++step) {
      StepLoad load;
      for (const double n : at(counts.values, step, layer))
        load.routed_E.push_back(static_cast<Index>(n));
      bench.balancer().after_step(load);
      CHECK(deviation(doubles(bench.balancer().bias()),
                      at(c.tensor("expert_bias_after").values, step, layer)) < kTolerance);
    }
  }
}

void check_loop(const GoldenCase& c) {
  const Index experts = c.integer("num_moe_experts"), k = c.integer("moe_router_topk");
  const Index steps = c.integer("steps"), micro_batches = c.integer("micro_batches");
  const Index tokens = c.integer("seq_length") * c.integer("bsz");
  RouterBench router(
      "type = \"" + c.text("moe_router_score_function") + "\"\nk = " + std::to_string(k), experts,
      DType::f64);
  BalancerBench bench(
      "type = \"expert_bias\"\nupdate_rate = " + c.text("moe_router_bias_update_rate"), experts, k);
  const Tokens meta = make_tokens(router.backend(), 1, tokens);
  const auto of_batch = [&](const std::string& name, Index step, Index m) {
    const auto begin =
        c.tensor(name).values.begin() + (step * micro_batches + m) * tokens * experts;
    return Values(begin, begin + tokens * experts);
  };
  const auto of_step = [&](const std::string& name, Index step) {
    const auto begin = c.tensor(name).values.begin() + step * experts;
    return Values(begin, begin + experts);
  };
  for (Index step = 0; step < steps; ++step) {
    CAPTURE(step);
    CHECK(deviation(doubles(bench.balancer().bias()), of_step("expert_bias_before", step)) <
          kTolerance);
    StepLoad load;
    load.routed_E.assign(static_cast<std::size_t>(experts), 0);
    for (Index m = 0; m < micro_batches; ++m) {
      router.route(meta, of_batch("logits", step, m), bench.balancer().bias());
      CHECK(router.map() == of_batch("routing_map", step, m));
      CHECK(deviation(router.dense_weights(), of_batch("probs", step, m)) < kTolerance);
      const auto counts = router.routing().plan->counts_before_drop();
      for (std::size_t e = 0; e < counts.size(); ++e) load.routed_E[e] += counts[e];
    }
    CHECK(Values(load.routed_E.begin(), load.routed_E.end()) ==
          of_step("local_tokens_per_expert", step));
    bench.balancer().after_step(load);
    CHECK(deviation(doubles(bench.balancer().bias()), of_step("expert_bias_after", step)) <
          kTolerance);
  }
}

}  // namespace

TEST_CASE("droppers equal Megatron Core: golden/megatron_drop") {
  const std::vector<GoldenCase> cases = read_golden("megatron_drop");
  CHECK(cases.size() == 48);
  for (const GoldenCase& c : cases)
    for (const DType dtype : {DType::f64, DType::f32}) {
      CAPTURE(c.name);
      CAPTURE(name_of(dtype));
      check_drop(c, dtype);
    }
}

TEST_CASE("expert_bias equals Megatron Core: golden/megatron_bias") {
  const std::vector<GoldenCase> cases = read_golden("megatron_bias");
  CHECK(cases.size() == 4);
  for (const GoldenCase& c : cases) {
    CAPTURE(c.name);
    if (c.has("logits"))
      check_loop(c);
    else
      check_rule(c);
  }
}
