// The expert bias against Megatron Core's own numbers: the rule on given counts, and a router's own
// loop.
#include "tests/golden_tests/suite.h"
#include "tests/moe/moe_fixture.h"

namespace moelab::test {
namespace {

constexpr double kTolerance = golden_tolerance(DType::f64);

void compare_rule(Comparison& to, const GoldenCase& c) {
  const GoldenTensor& counts = c.tensor("tokens_per_expert");
  const Index steps = c.integer("steps"), experts = counts.shape.back();
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
      to.same("bias after", doubles(bench.balancer().bias()),
              at(c.tensor("expert_bias_after").values, step, layer), kTolerance);
    }
  }
}

void compare_loop(Comparison& to, const GoldenCase& c) {
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
    to.same("bias before", doubles(bench.balancer().bias()), of_step("expert_bias_before", step),
            kTolerance);
    StepLoad load;
    load.routed_E.assign(static_cast<std::size_t>(experts), 0);
    for (Index m = 0; m < micro_batches; ++m) {
      router.route(meta, of_batch("logits", step, m), bench.balancer().bias());
      to.exact("map", router.map(), of_batch("routing_map", step, m));
      to.same("probs", router.dense_weights(), of_batch("probs", step, m), kTolerance);
      const auto counts = router.routing().plan->counts_before_drop();
      for (std::size_t e = 0; e < counts.size(); ++e) load.routed_E[e] += counts[e];
    }
    to.exact("counts", load.routed_E, of_step("local_tokens_per_expert", step));
    bench.balancer().after_step(load);
    to.same("bias after", doubles(bench.balancer().bias()), of_step("expert_bias_after", step),
            kTolerance);
  }
}

Outcome run_case(const GoldenCase& c) {
  c.ignore({"compute_dtype"});
  const std::string& function = c.text("function");
  Comparison to;
  if (function == "get_updated_expert_bias")
    compare_rule(to, c);
  else if (function == "TopKRouter.routing, _update_router_expert_bias")
    compare_loop(to, c);
  else
    return Outcome::failed("does not know the function " + function);
  return to.outcome();
}

const RegisterSuite registered{"megatron_bias", run_case};

}  // namespace
}  // namespace moelab::test
