#include <doctest/doctest.h>

#include "core/base/check.h"
#include "core/moe/routing_plan.h"
#include "core/moe/state_store.h"

using namespace moelab;

namespace {

RoutingPlan two_of_three() {  // 3 tokens, 3 experts, k = 2; token 1 is padding
  RoutingPlan plan;
  plan.tokens = 3;
  plan.experts = 3;
  plan.uniform_k = 2;
  plan.expert_P = {2, 0, -1, -1, 0, 1};
  plan.fate_P = {PairFate::kept,   PairFate::capacity, PairFate::absent,
                 PairFate::absent, PairFate::kept,     PairFate::kept};
  return plan;
}

}  // namespace

TEST_CASE("a plan counts pairs before and after dropping, and never the absent ones") {
  const RoutingPlan plan = two_of_three();
  plan.validate();
  CHECK(plan.counts_before_drop() == std::vector<Index>{2, 1, 1});
  CHECK(plan.counts_kept() == std::vector<Index>{1, 1, 1});
  CHECK(plan.dropped(PairFate::capacity) == 1);
  CHECK(plan.begin(2) == 4);
  CHECK(plan.end(2) == 6);
}

TEST_CASE("a ragged plan cuts its pairs by offsets") {
  RoutingPlan plan = two_of_three();
  plan.uniform_k = 0;
  plan.expert_P = {2, 0, 1};
  plan.fate_P.assign(3, PairFate::kept);
  plan.offset_T1 = {0, 2, 2, 3};
  plan.validate();
  CHECK(plan.end(0) == 2);
  plan.offset_T1 = {0, 2, 1, 3};
  CHECK_THROWS_AS(plan.validate(), InternalError);
}

TEST_CASE("a plan that breaks its invariants is refused") {
  RoutingPlan twice = two_of_three();
  twice.expert_P[5] = 0;
  CHECK_THROWS_AS(twice.validate(), InternalError);
  RoutingPlan outside = two_of_three();
  outside.expert_P[0] = 3;
  CHECK_THROWS_AS(outside.validate(), InternalError);
  RoutingPlan absent = two_of_three();
  absent.fate_P[2] = PairFate::kept;
  CHECK_THROWS_AS(absent.validate(), InternalError);
  RoutingPlan short_of_fates = two_of_three();
  short_of_fates.fate_P.pop_back();
  CHECK_THROWS_AS(short_of_fates.validate(), InternalError);
}

TEST_CASE("state is created once, as zeros, and never cast") {
  const auto backend = Backend::cpu();
  StateStore store("model.layers.3.mlp");
  Tensor& bias = store.get(*backend, "balancers.bias", DType::f32, {4});
  CHECK(bias.span<float>()[3] == 0.0F);
  bias.span<float>()[3] = 1.5F;
  CHECK(store.get(*backend, "balancers.bias", DType::f32, {4}).span<float>()[3] == 1.5F);
  CHECK(store.all().begin()->first == "model.layers.3.mlp.balancers.bias");
  CHECK_THROWS_AS(store.get(*backend, "balancers.bias", DType::f64, {4}), InternalError);
}
