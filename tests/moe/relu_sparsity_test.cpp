// The controller that holds the number of experts a token uses.
#include "core/moe/moe_layer.h"
#include "tests/moe/moe_fixture.h"

using namespace moelab;
using namespace moelab::test;

namespace {

constexpr Index kExperts = 4;

// Two tokens on four experts: loads 2, 1, 0, 0; weights 1 + 2, 3.
const std::vector<double> kLogits{1, 3, -1, -1, 2, -1, -1, -1};

struct Facts {
  std::shared_ptr<Backend> backend = Backend::cpu();
  Tokens tokens = make_tokens(*backend, 1, 2);
  ScopeMaps scopes{tokens, nullptr};
  StateStore step_state{"step"};

  BalancerInput input(const Routing& routing) {
    return {routing,
            tokens,
            {},
            0,
            nullptr,
            [](ScopeSpec) { return Index{1}; },
            [this](ScopeSpec spec) -> const ScopeMap& { return scopes.get(spec); },
            2,
            step_state};
  }
};

std::unique_ptr<Balancer> made(const std::string& keys, StateStore& state, double mean_k) {
  static const auto backend = Backend::cpu();  // balancers keep a reference
  return component<Balancer>("type = \"relu_sparsity\"\n" + keys)
      .make({*backend, DType::f64, kExperts, 0, 0, "label", state, mean_k});
}

StepLoad load_of(Index pairs, Index tokens) { return {{pairs, 0, 0, 0}, {pairs, 0, 0, 0}, tokens}; }

}  // namespace

TEST_CASE("relu_sparsity: the mean of weights, by load if asked") {
  RouterBench bench("type = \"relu\"\nmean_k = 2.0", kExperts, DType::f64);
  Facts facts;
  bench.route(facts.tokens, kLogits);
  const auto value = [&](const std::string& keys) {
    StateStore state("test");
    const auto balancer = made("pooled = false\n" + keys, state, 2.0);
    return doubles(balancer->loss(bench.tape(), facts.input(bench.routing()))->value.value)[0];
  };
  CHECK(value("by_load = false") == doctest::Approx((1 + 2 + 3) / 2.0));
  // An even load is 2 · 2 / 4 = 1: factors 2 and 1.
  CHECK(value("by_load = true") == doctest::Approx((2 * (1 + 2) + 1 * 3) / 2.0));
}

TEST_CASE("relu_sparsity: the gradient is the factor of each pair, and 0 elsewhere") {
  RouterBench bench("type = \"relu\"\nmean_k = 2.0", kExperts, DType::f64);
  Facts facts;
  bench.route(facts.tokens, kLogits);
  StateStore state("test");
  const auto balancer = made("pooled = false", state, 2.0);
  bench.tape().seed(balancer->loss(bench.tape(), facts.input(bench.routing()))->value, 1.0);
  CHECK(bench.logits_gradient() == std::vector<double>{1, 0.5, 0, 0, 1, 0, 0, 0});
}

TEST_CASE("relu_sparsity: the coefficient follows the number of experts a token uses") {
  StateStore state("test");
  const auto balancer = made("pooled = false\nstart = 0.5\nrate = 2.0", state, 2.0);
  RouterBench bench("type = \"relu\"", kExperts, DType::f64);
  Facts facts;
  bench.route(facts.tokens, kLogits);
  const auto coefficient = [&] {
    return balancer->loss(bench.tape(), facts.input(bench.routing()))->coefficient;
  };
  CHECK(coefficient() == 0.5);
  balancer->after_step(load_of(21, 10));  // 2.1 experts a token
  CHECK(coefficient() == 1.0);
  balancer->after_step(load_of(20, 10));
  CHECK(coefficient() == 1.0);
  balancer->after_step(load_of(19, 10));
  balancer->after_step(load_of(19, 10));
  CHECK(coefficient() == 0.25);
}

TEST_CASE("relu_sparsity pooled: one loss and one coefficient for all layers, kept by the first") {
  RouterBench full("type = \"relu\"", kExperts, DType::f64),
      empty("type = \"relu\"", kExperts, DType::f64);
  Facts facts;
  full.route(facts.tokens, kLogits);
  empty.route(facts.tokens, {-1, -1, -1, -1, 1, -1, -1, -1});
  const std::vector<Routing> layers{full.routing(), empty.routing()};
  const auto power = [&](const StateStore& state) {
    return *state.all().at("test.balancers.label.power").data<std::int64_t>();
  };
  const auto after = [&](double mean_k) {
    StateStore state("test");
    const auto balancer = made("by_load = false\nstart = 0.5", state, mean_k);
    CHECK(!balancer->loss(full.tape(), facts.input(layers[0])));
    const auto term = balancer->pooled_loss(full.tape(), layers, facts.input(layers[0]));
    CHECK(doubles(term->value.value)[0] == doctest::Approx((6 / 2.0 + 1 / 2.0) / 2));
    CHECK(term->coefficient == 0.5);
    balancer->after_step(load_of(0, 2));  // of the first layer alone: not what counts
    return power(state);
  };
  CHECK(after(0.9) == 1);  // four pairs of two tokens in two layers
  CHECK(after(1.0) == 0);
  CHECK(after(1.1) == -1);
  StateStore state("test");
  made("", state, 2.0)->after_step(load_of(100, 2));  // of a later layer: it keeps none
  CHECK(power(state) == 0);
}

TEST_CASE("relu_sparsity needs a router that lets the number vary") {
  const auto problems = [](Index k) {
    Report report;
    Balancer::Facts facts;
    facts.experts = kExperts;
    facts.k = k;
    component<Balancer>("type = \"relu_sparsity\"").check(facts, report);
    return report.problems().size();
  };
  CHECK(problems(0) == 0);
  CHECK(problems(2) == 1);
}
