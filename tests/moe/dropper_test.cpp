// Who stays when an expert is full. T tokens, E experts, P pair slots.
#include "core/moe/capacity.h"
#include "tests/moe/moe_fixture.h"

using namespace moelab;
using namespace moelab::test;

namespace {

using Ids = std::vector<std::int32_t>;

struct Dropped {
  std::shared_ptr<RoutingPlan> plan;
  std::vector<int> kept_P;
};

Dropped drop(const std::string& recipe, const Ids& expert_P, const std::vector<double>& weight_P,
             Index experts, const Moment& moment = {}, const NoiseSource* noise = nullptr) {
  const auto backend = Backend::cpu();
  constexpr Index k = 2;
  const auto tokens = static_cast<Index>(expert_P.size()) / k;
  const Tokens meta = make_tokens(*backend, 1, tokens);
  const ScopeMap scope({}, meta, nullptr);
  Dropped out{uniform_plan(tokens, experts, k, expert_P), {}};
  component<Dropper>(recipe)
      .make({experts, k, 0, "test.dropper"})
      ->drop(*out.plan, reals(*backend, DType::f64, {tokens * k}, weight_P),
             {meta, moment, 0, experts, k, [&](ScopeSpec) -> const ScopeMap& { return scope; },
              noise});
  out.plan->validate();
  for (const PairFate fate : out.plan->fate_P) out.kept_P.push_back(fate == PairFate::kept);
  return out;
}

const Ids kThreeTokens{0, 1, 0, 1, 1, 0};
const std::vector<double> kTheirWeights{0.6, 0.4, 0.9, 0.1, 0.7, 0.3};
const std::string kTwoRows = "\ncapacity_factor = 0.5";  // C = ceil(3·2·0.5 / 2) = 2

}  // namespace

TEST_CASE("choice_rank takes first choices before second ones, each in token order") {
  CHECK(drop("type = \"choice_rank\"" + kTwoRows, kThreeTokens, kTheirWeights, 2).kept_P ==
        std::vector<int>{1, 1, 1, 0, 1, 0});
}

TEST_CASE("batch_prioritized takes first choices first, and within a rank the surest tokens") {
  // Token 1 is surest: of the second choices of expert 1 it is the one that fits.
  CHECK(drop("type = \"batch_prioritized\"" + kTwoRows, kThreeTokens, kTheirWeights, 2).kept_P ==
        std::vector<int>{1, 0, 1, 1, 1, 0});
  // By the sum, token 0 is.
  CHECK(drop("type = \"batch_prioritized\"\npriority = \"sum\"" + kTwoRows, kThreeTokens,
             {0.6, 0.6, 0.9, 0.1, 0.7, 0.3}, 2)
            .kept_P == std::vector<int>{1, 1, 1, 0, 1, 0});
}

TEST_CASE("random keeps the capacity, other pairs at another step, the same when asked again") {
  Ids expert_P;
  for (int t = 0; t < 64; ++t) expert_P.insert(expert_P.end(), {0, t % 3 + 1});
  const std::vector<double> weight_P(expert_P.size(), 0.5);
  const std::string recipe = "type = \"random\"\ncapacity_factor = 1.0";
  Moment moment;
  const Dropped first = drop(recipe, expert_P, weight_P, 4, moment);
  CHECK(first.plan->counts_kept() == std::vector<Index>{32, 22, 21, 21});
  CHECK(drop(recipe, expert_P, weight_P, 4, moment).kept_P == first.kept_P);
  moment.step = 1;
  const Dropped other = drop(recipe, expert_P, weight_P, 4, moment);
  CHECK(other.kept_P != first.kept_P);
  CHECK(other.plan->counts_kept() == first.plan->counts_kept());
  int in_both = 0;
  for (std::size_t p = 0; p < expert_P.size(); p += 2)
    in_both += first.kept_P[p] != 0 && other.kept_P[p] != 0 ? 1 : 0;
  CHECK(in_both > 8);   // of 32 each, 16 expected: neither the same
  CHECK(in_both < 24);  // nor the others
}

TEST_CASE("random keeps the pairs of the largest recorded draws") {
  const NoiseSource recorded = [](std::string_view name, const Tensor& out) {
    if (name != "test.dropper.random") return false;
    const std::vector<double> draw_TE{0.1, 0.9, 0.3, 0.2, 0.2, 0.8};
    std::copy(draw_TE.begin(), draw_TE.end(), out.data<double>());
    return true;
  };
  CHECK(
      drop("type = \"random\"" + kTwoRows, kThreeTokens, kTheirWeights, 2, {}, &recorded).kept_P ==
      std::vector<int>{0, 1, 1, 0, 1, 1});
}

TEST_CASE("where k varies, an expert's share is taken of the pairs that there are") {
  const auto backend = Backend::cpu();
  const Tokens meta = make_tokens(*backend, 1, 4);
  const ScopeMap scope({}, meta, nullptr);
  RoutingPlan plan;
  plan.tokens = 4;
  plan.experts = 2;
  plan.offset_T1 = {0, 2, 3, 4, 5};
  plan.expert_P = {0, 1, 0, 0, 0};
  plan.fate_P.assign(5, PairFate::kept);
  component<Dropper>("type = \"position\"\ncapacity_factor = 1.0")
      .make({2, 0, 0})
      ->drop(plan, reals(*backend, DType::f64, {5}, {1, 1, 1, 1, 1}),
             {meta, {}, 0, 2, 0, [&](ScopeSpec) -> const ScopeMap& { return scope; }});
  CHECK(plan.counts_kept() == std::vector<Index>{3, 1});  // C = ceil(5 / 2)
}

TEST_CASE("DeepSpeed's capacity is rounded in float32") {
  CHECK(capacity(100, 1, 1, 1.2, 0) == 120);
  CHECK(deepspeed_capacity(100, 1, 1, 1.2, 0) == 121);
  CHECK(deepspeed_capacity(3, 1, 4, 8.0, 0) == 6);
  CHECK(deepspeed_capacity(4, 2, 4, 1.0, 8) == 8);
}
