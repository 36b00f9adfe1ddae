// Selection, combine weights and their gradient against Megatron Core's own numbers.
#include "tests/golden_tests/suite.h"
#include "tests/moe/moe_fixture.h"

namespace moelab::test {
namespace {

std::string recipe_of(const GoldenCase& c) {
  std::string recipe = "type = \"" + c.text("score_function") + "\"\nk = " + c.text("topk");
  const bool pre_softmax = c.flag("use_pre_softmax");
  if (c.text("score_function") == "softmax")
    recipe += std::string("\nscore_first = ") + (pre_softmax ? "true" : "false");
  if (c.given("num_groups"))
    recipe += "\ngroups = " + c.text("num_groups") + "\ngroup_limit = " + c.text("group_topk");
  if (c.given("scaling_factor")) recipe += "\nscaling = " + c.text("scaling_factor");
  return recipe;
}

void compare(Comparison& to, const GoldenCase& c, DType dtype, bool with_bias) {
  const Index tokens = c.integer("num_tokens"), experts = c.integer("num_experts");
  RouterBench bench(recipe_of(c), experts, dtype);
  const Tensor bias = with_bias
                          ? reals(bench.backend(), dtype, {experts}, c.tensor("expert_bias").values)
                          : Tensor{};
  bench.route(make_tokens(bench.backend(), 1, tokens), c.tensor("logits").values, bias);
  const double tolerance = golden_tolerance(dtype);
  to.exact("map", bench.map(), c.tensor("routing_map"));
  to.exact("ids", bench.routing().plan->expert_P, c.tensor("top_indices"));
  to.same("weights", doubles(bench.routing().weight_P.value), c.tensor("top_probs"), tolerance);
  const Values dense = bench.dense_weights();
  to.same("probs", dense, c.tensor("probs"), tolerance);
  bench.seed_weights(c.tensor("cotangent").values);
  const Values gradient = bench.logits_gradient();
  to.same("logits' gradient", gradient, c.tensor("grad_logits"), tolerance);
  if (dtype != DType::f32) return;
  to.same("native probs", dense, c.tensor("probs_native_fp32"), tolerance);
  to.same("native gradient", gradient, c.tensor("grad_logits_native_fp32"), tolerance);
}

Outcome compared(const GoldenCase& c, bool with_bias) {
  Comparison to;
  for (const DType dtype : {DType::f64, DType::f32}) compare(to, c, dtype, with_bias);
  return to.outcome();
}

Outcome run_case(const GoldenCase& c) {
  c.ignore({"compute_dtype", "expert_bias"});  // the param only names the tensor
  const bool has_bias = c.has("expert_bias");
  if (!has_bias || c.text("score_function") != "softmax") return compared(c, has_bias);
  const Outcome without = compared(c, false);
  if (without.kind != Outcome::Kind::passed)
    return Outcome::failed("even without the bias: " + without.text);
  return compared(c, true);
}

const RegisterSuite registered{"megatron_topk", run_case};

}  // namespace
}  // namespace moelab::test
