// Selection, combine weights and their gradient against Megatron Core's own numbers.
#include "tests/moe/moe_fixture.h"
#include "tests/support/golden.h"

using namespace moelab;
using namespace moelab::test;

namespace {

std::string recipe_of(const GoldenCase& c) {
  std::string recipe = "type = \"" + c.text("score_function") + "\"\nk = " + c.text("topk");
  if (c.text("score_function") == "softmax")
    recipe += "\nscore_first = " + c.text("use_pre_softmax");
  if (c.given("num_groups"))
    recipe += "\ngroups = " + c.text("num_groups") + "\ngroup_limit = " + c.text("group_topk");
  if (c.given("scaling_factor")) recipe += "\nscaling = " + c.text("scaling_factor");
  return recipe;
}

// Megatron's softmax takes no choice bias, although the case passes one.
bool uses_bias(const GoldenCase& c) {
  return c.has("expert_bias") && c.text("score_function") != "softmax";
}

void compare(const GoldenCase& c, DType dtype) {
  const Index tokens = c.integer("num_tokens"), experts = c.integer("num_experts");
  RouterBench bench(recipe_of(c), experts, dtype);
  const Tensor bias = uses_bias(c)
                          ? reals(bench.backend(), dtype, {experts}, c.tensor("expert_bias").values)
                          : Tensor{};
  bench.route(make_tokens(bench.backend(), 1, tokens), c.tensor("logits").values, bias);
  CHECK(bench.map() == c.tensor("routing_map").values);
  const auto& ids = bench.routing().plan->expert_P;
  CHECK(std::vector<double>(ids.begin(), ids.end()) == c.tensor("top_indices").values);

  const double tolerance = golden_tolerance(dtype);
  CHECK(deviation(doubles(bench.routing().weight_P.value), c.tensor("top_probs").values) <
        tolerance);
  const std::vector<double> dense = bench.dense_weights();
  CHECK(deviation(dense, c.tensor("probs").values) < tolerance);
  bench.seed_weights(c.tensor("cotangent").values);
  const std::vector<double> gradient = bench.logits_gradient();
  CHECK(deviation(gradient, c.tensor("grad_logits").values) < tolerance);
  if (dtype != DType::f32) return;
  CHECK(deviation(dense, c.tensor("probs_native_fp32").values) < tolerance);
  CHECK(deviation(gradient, c.tensor("grad_logits_native_fp32").values) < tolerance);
}

}  // namespace

TEST_CASE("routers equal Megatron Core: golden/megatron_topk") {
  const std::vector<GoldenCase> cases = read_golden("megatron_topk");
  CHECK(cases.size() == 35);
  for (const GoldenCase& c : cases)
    for (const DType dtype : {DType::f64, DType::f32}) {
      CAPTURE(c.name);
      CAPTURE(name_of(dtype));
      compare(c, dtype);
    }
}
