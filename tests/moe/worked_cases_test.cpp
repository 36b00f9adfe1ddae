// Cases small enough to follow on paper: six tokens, four experts, top-2, ties to the lower id.
#include <cmath>

#include "core/moe/switch_loss.h"
#include "tests/moe/moe_fixture.h"

using namespace moelab;
using namespace moelab::test;

namespace {

const std::vector<double> kLogits{1,   .5, -.5, 0,  2,   -1, .3,  .1, .2,  1.5, .7,   -.4,
                                  1.2, .9, .8,  -2, -.3, .4, 1.1, .6, 1.6, 1.4, -1.2, .25};
constexpr Index kTokens = 6, kExperts = 4;
constexpr double kSixDecimals = 5e-7;  // the cases are given to six decimals

struct Six {
  RouterBench bench;
  Tokens tokens;
  explicit Six(const std::string& recipe, const std::vector<double>& bias = {}, Index rows = 1)
      : bench(recipe, kExperts, DType::f64),
        tokens(make_tokens(bench.backend(), rows, kTokens / rows)) {
    bench.route(tokens, kLogits,
                bias.empty() ? Tensor{} : reals(bench.backend(), DType::f64, {kExperts}, bias));
  }
  std::vector<std::int32_t> ids(Index t) const {
    const auto& all = bench.routing().plan->expert_P;
    return {all.begin() + 2 * t, all.begin() + 2 * t + 2};
  }
  double weight(Index slot) const {
    return doubles(bench.routing().weight_P.value)[static_cast<std::size_t>(slot)];
  }
};

void check_row(const Six& six, Index t, std::vector<std::int32_t> ids, double first,
               double second) {
  CHECK(six.ids(t) == ids);
  CHECK(six.weight(2 * t) == doctest::Approx(first).epsilon(kSixDecimals / first));
  CHECK(six.weight(2 * t + 1) == doctest::Approx(second).epsilon(kSixDecimals / second));
}

// Which tokens each expert keeps after `dropper` on the softmax router's choices.
std::vector<std::vector<Index>> kept_tokens(const Six& six, const std::string& dropper,
                                            RoutingPlan* after = nullptr) {
  RoutingPlan plan = *six.bench.routing().plan;
  std::vector<std::unique_ptr<ScopeMap>> maps;
  component<Dropper>(dropper)
      .make({kExperts, 2, 0})
      ->drop(plan, six.bench.routing().weight_P.value,
             {six.tokens, {}, 0, kExperts, 2, [&](ScopeSpec spec) -> const ScopeMap& {
                maps.push_back(std::make_unique<ScopeMap>(spec, six.tokens, nullptr));
                return *maps.back();
              }});
  std::vector<std::vector<Index>> tokens(kExperts);
  for (Index t = 0; t < kTokens; ++t)
    for (Index p = plan.begin(t); p < plan.end(t); ++p)
      if (const auto at = static_cast<std::size_t>(p); plan.fate_P[at] == PairFate::kept)
        tokens[static_cast<std::size_t>(plan.expert_P[at])].push_back(t);
  if (after) *after = plan;
  return tokens;
}

double aux_loss(const Six& six, const std::string& recipe, Index instances) {
  BalancerBench bench(recipe, kExperts, 2);
  Tape tape(const_cast<RouterBench&>(six.bench).backend());
  return doubles(bench.loss(tape, six.bench.routing(), six.tokens, instances).value.value)[0];
}

}  // namespace

TEST_CASE("w1: a choice bias changes the choice and never the weights") {
  check_row(Six("type = \"sigmoid\"", {-.3, 0, 0, .3}), 0, {3, 1}, .445450, .554550);
  check_row(Six("type = \"sigmoid\"\nnormalize = false", {-.3, 0, 0, .3}), 0, {3, 1}, .5, .622459);
  check_row(Six("type = \"sqrtsoftplus\"", {-.3, 0, 0, .3}), 0, {3, 1}, .457571, .542429);
  // With softmax too: biased logits choose, unbiased ones weigh.
  const Six softmax("type = \"softmax\"", {-3, 0, 0, 3});
  check_row(softmax, 0, {3, 1}, 1 / (1 + std::exp(.5)), 1 / (1 + std::exp(-.5)));
}

TEST_CASE("w2: softmax before or after the top-k") {
  check_row(Six("type = \"softmax\"\nscore_first = true"), 0, {0, 1}, .455054, .276004);
  check_row(Six("type = \"softmax\""), 0, {0, 1}, .622459, .377541);
  check_row(Six("type = \"softmax\"\nscore_first = true\nnormalize = true"), 0, {0, 1}, .622459,
            .377541);
  check_row(Six("type = \"sigmoid\""), 5, {0, 1}, .509128, .490872);
  check_row(Six("type = \"sqrtsoftplus\"\nscaling = 2.5"), 1, {0, 2}, 1.530188, .969812);
}

TEST_CASE("groups: the best group of two, then its two experts") {
  const Six six("type = \"softmax\"\nscore_first = true\ngroups = 2\ngroup_limit = 1");
  check_row(six, 0, {0, 1}, .455054, .276004);
  check_row(six, 1, {0, 1}, .723568, .036024);
  check_row(six, 2, {1, 0}, .534351, .145628);
  check_row(six, 4, {2, 3}, .425584, .258130);
}

TEST_CASE("w3: drops on post-softmax weights") {
  using Kept = std::vector<std::vector<Index>>;
  const Six six("type = \"softmax\"");
  RoutingPlan plan;
  CHECK(kept_tokens(six, "type = \"probs\"\ncapacity_factor = 1.0", &plan) ==
        Kept{{0, 1, 3}, {2, 3, 5}, {1, 2, 4}, {4}});
  CHECK(plan.dropped(PairFate::capacity) == 2);
  CHECK(six.weight(11) == doctest::Approx(.450166).epsilon(1e-6));  // token 5 keeps expert 1
  CHECK(kept_tokens(six, "type = \"position\"\ncapacity_factor = 1.0") ==
        Kept{{0, 1, 3}, {0, 2, 3}, {1, 2, 4}, {4}});
  CHECK(kept_tokens(six, "type = \"probs\"\ncapacity_factor = 0.5\nmin_capacity = 2", &plan) ==
        Kept{{0, 1}, {2, 5}, {2, 4}, {4}});
  CHECK(plan.dropped(PairFate::capacity) == 5);
  CHECK(kept_tokens(six, "type = \"position\"\ncapacity_factor = 0.5\nmin_capacity = 2") ==
        Kept{{0, 1}, {0, 2}, {1, 2}, {4}});
  CHECK(kept_tokens(six, "type = \"none\"") == Kept{{0, 1, 3, 5}, {0, 2, 3, 5}, {1, 2, 4}, {4}});
}

TEST_CASE("w4: the scope of capacity") {
  RoutingPlan plan;
  kept_tokens(Six("type = \"softmax\"", {}, 2), "type = \"probs\"\ncapacity_factor = 1.0", &plan);
  CHECK(plan.dropped(PairFate::capacity) == 2);
  kept_tokens(Six("type = \"softmax\"", {}, 2),
              "type = \"probs\"\ncapacity_factor = 1.0\nscope = \"sequence\"", &plan);
  CHECK(plan.dropped(PairFate::capacity) == 0);
}

TEST_CASE("w5: aux losses do not add up over groups") {
  const Six whole("type = \"softmax\""), halves("type = \"softmax\"", {}, 2);
  CHECK(aux_loss(whole, "type = \"aux_loss\"", 1) == doctest::Approx(1.141346).epsilon(1e-6));
  CHECK(aux_loss(halves, "type = \"aux_loss\"", 1) == doctest::Approx(1.141346).epsilon(1e-6));
  for (const char* recipe :
       {"type = \"aux_loss\"\nscope = \"sequence\"",
        "type = \"aux_loss\"\nscope = \"group\"\ngroup_size = 1", "type = \"sequence_aux_loss\""})
    CHECK(aux_loss(halves, recipe, 2) == doctest::Approx(1.129504).epsilon(1e-6));
  CHECK(aux_loss(halves, "type = \"aux_loss\"\nscope = \"group\"\ngroup_size = 2", 1) ==
        doctest::Approx(1.141346).epsilon(1e-6));
  // DeepSpeed's top-2 counts first choices only: k = 1 over the same scores.
  const Six first("type = \"softmax\"");
  BalancerBench bench("type = \"aux_loss\"", kExperts, 1);
  Tape tape(const_cast<RouterBench&>(first.bench).backend());
  CHECK(doubles(bench.loss(tape, first.bench.routing(), first.tokens, 1).value.value)[0] ==
        doctest::Approx(1.351365).epsilon(1e-6));
}

TEST_CASE("w6: which side of dropping the expert bias counts") {
  const auto moved = [](const std::string& count, StepLoad load, std::vector<double> from) {
    BalancerBench bench("type = \"expert_bias\"\nupdate_rate = 0.1\ncount = \"" + count + "\"",
                        kExperts, 2);
    const auto backend = Backend::cpu();
    copy(reals(*backend, DType::f64, {kExperts}, from), bench.balancer().bias());
    bench.balancer().after_step(load);
    return doubles(bench.balancer().bias());
  };
  using V = std::vector<double>;
  const StepLoad load{{4, 4, 3, 1}, {3, 3, 3, 1}, 6};
  CHECK(moved("before_drop", load, {0, 0, 0, 0}) == V{-.1, -.1, 0, .1});
  CHECK(moved("after_drop", load, {0, 0, 0, 0}) == V{-.1, -.1, -.1, .1});
  CHECK(moved("after_drop", {{4, 4, 3, 1}, {3, 3, 3, 3}, 6}, {0, 0, 0, 0}) == V{0, 0, 0, 0});
  const V once = moved("before_drop", {{5, 4, 3, 0}, {}, 6}, {0, 0, 0, 0});
  CHECK(once == V{-.1, -.1, 0, .1});
  const V twice = moved("before_drop", load, once);
  CHECK(twice == V{-.2, -.2, 0, .2});
  CHECK(moved("before_drop", {{3, 3, 3, 3}, {}, 6}, twice) == twice);
}

TEST_CASE("w8: the router's precision decides near-ties, and f32 state moves by small steps") {
  const auto chosen = [](const std::string& dtype) {
    const auto backend = Backend::cpu();
    StateStore state("test");
    const auto router =
        component<Router>("type = \"softmax\"\nk = 1\nscore_first = true\ndtype = \"" + dtype +
                          "\"")
            .make({*backend, DType::f32, 2, 2, 0, "gate", 0.02, state});
    const double small = std::ldexp(1.0, -15);
    router->parameters([&](Parameter& p) {
      copy(reals(*backend, DType::f32, {2, 2}, {1, 0, 1, small}), p.value);
    });
    Tape tape(*backend);
    const Tokens tokens = make_tokens(*backend, 1, 1);
    const Variable x = tape.input(reals(*backend, DType::f32, {1, 2}, {1, small}));
    return router->route(tape, {x, tokens, {}, 0, nullptr, nullptr, {}, {}, nullptr})
        .plan->expert_P[0];
  };
  CHECK(chosen("input") == 0);  // 1 + 2^-30 is 1 in f32: a tie, to the lower id
  CHECK(chosen("f32") == 0);
  CHECK(chosen("f64") == 1);

  BalancerBench bench("type = \"expert_bias\"\nupdate_rate = 0.001", 2, 1, DType::f32);
  const auto backend = Backend::cpu();
  copy(reals(*backend, DType::f32, {2}, {1, 1}), bench.balancer().bias());
  bench.balancer().after_step({{512 + 8, 0}, {}, 520});  // counts are whole numbers of any size
  CHECK(doubles(bench.balancer().bias())[0] == doctest::Approx(0.999));
  CHECK(doubles(bench.balancer().bias())[1] == doctest::Approx(1.001));
}
