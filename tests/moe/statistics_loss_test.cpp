// Balancers beside the Switch form: variation, entropy, the gate's rows, all layers pooled, and how
// the expert bias moves.
#include <algorithm>
#include <cmath>

#include "core/moe/gate_loss.h"
#include "registry/error.h"
#include "tests/moe/moe_fixture.h"

using namespace moelab;
using namespace moelab::test;

namespace {

double value_of(const LossTerm& term) { return doubles(term.value.value)[0]; }

double normal(double z) { return 0.5 * std::erfc(-z / std::sqrt(2.0)); }
// Of two amounts.
double squared_cv(double a, double b) { return (a - b) * (a - b) / ((a + b) * (a + b)); }

std::vector<double> moved(const std::string& recipe, const std::vector<Index>& load_E) {
  BalancerBench bench("type = \"expert_bias\"\nupdate_rate = 0.1\n" + recipe,
                      static_cast<Index>(load_E.size()), 1);
  StepLoad load;
  load.routed_E = load.kept_E = load_E;
  bench.balancer().after_step(load);
  return doubles(bench.balancer().bias());
}

// A router with this gate [E, H], and a loss on it.
struct OnGate {
  std::shared_ptr<Backend> backend = Backend::cpu();
  StateStore state{"test"}, step_state{"step"};
  std::unique_ptr<Router> router;
  Tape tape{*backend};
  OnGate(Index experts, Index hidden, const std::vector<double>& gate) {
    router = component<Router>("type = \"softmax\"\nk = 1")
                 .make({*backend, DType::f64, hidden, experts, 0, "test.gate", 0.02, state});
    copy(reals(*backend, DType::f64, {experts, hidden}, gate), router->gate()->value);
  }
  LossTerm loss(const std::string& recipe, Index micro_batches = 1) {
    const auto balancer =
        component<Balancer>(recipe).make({*backend, DType::f64, 2, 1, 0, "label", state});
    Routing routing;
    const Tokens tokens{};
    Moment moment;
    moment.micro_batches = micro_batches;
    const BalancerInput input{routing, tokens, moment, 0,          nullptr,
                              {},      {},     0,      step_state, router.get()};
    return balancer->loss(tape, input).value();
  }
};

}  // namespace

TEST_CASE("losses that count the top-k of the scores are refused where k varies") {
  Balancer::Facts facts;
  facts.experts = 8;
  facts.rows_per_micro_batch = 4;
  for (const std::string type : {"aux_loss", "pooled_aux"}) {
    CAPTURE(type);
    const std::string toml = "type = \"" + type + "\"\n";
    CHECK(problems<Balancer>(toml, facts).find("set counts = \"routed\"") != std::string::npos);
    CHECK(problems<Balancer>(toml + "counts = \"routed\"", facts).empty());
  }
}

TEST_CASE("expert_bias: sign by a fixed step, proportional by the distance, centred with sum 0") {
  const std::vector<Index> load{5, 1, 0, 2};  // mean 2
  const auto same = [](const std::vector<double>& got, const std::vector<double>& want) {
    REQUIRE(got.size() == want.size());
    for (std::size_t i = 0; i < got.size(); ++i) CHECK(got[i] == doctest::Approx(want[i]));
  };
  same(moved("", load), {-0.1, 0.1, 0.1, 0});
  same(moved("center = true", load), {-0.125, 0.075, 0.075, -0.025});
  same(moved("rule = \"proportional\"", load), {-0.15, 0.05, 0.1, 0});
  same(moved("rule = \"proportional\"", {0, 0, 0, 0}), {0, 0, 0, 0});
}

TEST_CASE("importance: squared variation of combine weights or scores, 0 when even") {
  RouterBench bench("type = \"softmax\"\nk = 1\nscore_first = true", 2, DType::f64);
  const Tokens tokens = make_tokens(bench.backend(), 1, 3, {1, 1, 0});
  bench.route(tokens, {1, 0, 0, 3, 50, 0});
  const double a = 1 / (1 + std::exp(-1.0)), b = 1 / (1 + std::exp(-3.0));
  const auto value = [&](const std::string& recipe) {
    BalancerBench loss("type = \"importance\"\n" + recipe, 2, 1);
    return value_of(loss.loss(bench.tape(), bench.routing(), tokens, 1));
  };
  CHECK(value("") == doctest::Approx(squared_cv(a, b)));
  CHECK(value("of = \"scores\"") == doctest::Approx(squared_cv(a + 1 - b, 1 - a + b)));
  bench.route(tokens, {1, 0, 0, 1, 50, 0});
  CHECK(value("") == doctest::Approx(0).epsilon(1e-12));
}

TEST_CASE("load: likely tokens of an expert, against the k-th largest logit of the others") {
  RouterBench bench("type = \"softmax\"\nk = 1", 2, DType::f64);
  const Tokens tokens = make_tokens(bench.backend(), 1, 3, {1, 1, 0});
  bench.route(tokens, {1, 0, 0, 0.25, 0, 9});
  BalancerBench own("type = \"load\"\nnoise = 0.4", 2, 1), half("type = \"load\"", 2, 1);
  const auto expected = [](double std) {
    const double first = normal(1 / std) + normal(-0.25 / std);
    return squared_cv(first, 2 - first);
  };
  CHECK(value_of(own.loss(bench.tape(), bench.routing(), tokens, 1)) ==
        doctest::Approx(expected(0.4)));
  CHECK(value_of(half.loss(bench.tape(), bench.routing(), tokens, 1)) ==
        doctest::Approx(expected(0.5)));
  // A router's own noise: deviations by token and expert, thresholds from the noisy logits.
  Routing noisy = bench.routing();
  noisy.clean_logits_TE =
      bench.tape().input(reals(bench.backend(), DType::f64, {3, 2}, {0.5, 0, 0, 0, 0, 0}));
  noisy.noise_std_TE =
      bench.tape().input(reals(bench.backend(), DType::f64, {3, 2}, {1, 2, 1, 1, 1, 1}));
  const double first = normal(0.5 - 0) + normal(0 - 0.25), second = normal(-1.0 / 2) + normal(0);
  CHECK(value_of(own.loss(bench.tape(), noisy, tokens, 1)) ==
        doctest::Approx(squared_cv(first, second)));
}

TEST_CASE("entropy: of each token, or what that of the mean scores lacks") {
  RouterBench bench("type = \"softmax\"\nk = 1", 2, DType::f64);
  const Tokens tokens = make_tokens(bench.backend(), 1, 3, {1, 1, 0});
  bench.route(tokens, {1, 0, 0, 1, 7, 0});
  const auto value = [&](const std::string& of) {
    BalancerBench loss("type = \"entropy\"\nof = \"" + of + "\"", 2, 1);
    return value_of(loss.loss(bench.tape(), bench.routing(), tokens, 1));
  };
  const double p = 1 / (1 + std::exp(-1.0));
  CHECK(value("token") == doctest::Approx(-p * std::log(p) - (1 - p) * std::log(1 - p)));
  CHECK(value("marginal") == doctest::Approx(0).epsilon(1e-12));
  bench.route(tokens, {200, 0, 200, 0, 7, 0});  // one expert gets all: nothing is infinite
  CHECK(value("token") == doctest::Approx(0).epsilon(1e-12));
  CHECK(value("marginal") == doctest::Approx(std::log(2.0)));
}

TEST_CASE("losses on the gate: of its rows, a part a micro-batch") {
  OnGate bench(2, 2, {3, 4, 0.5, 0});  // w·w = 25, .25 and 1.5; cosine .6
  CHECK(value_of(bench.loss("type = \"similarity\"")) == doctest::Approx(24 + 0.75 + 2 * 1.5));
  CHECK(value_of(bench.loss("type = \"router_orthogonality\"")) == doctest::Approx(2 * 0.36));
  CHECK(value_of(bench.loss("type = \"router_orthogonality\"", 4)) == doctest::Approx(0.18));
  OnGate orthonormal(2, 2, {0.6, 0.8, -0.8, 0.6});
  CHECK(value_of(orthonormal.loss("type = \"similarity\"")) == doctest::Approx(0).epsilon(1e-12));
  bench.router.reset();
  CHECK_THROWS_AS(bench.loss("type = \"similarity\""), Error);
}

TEST_CASE("pooled_aux takes the tokens of all layers as one crowd") {
  RouterBench bench("type = \"softmax\"\nk = 1\nscore_first = true", 2, DType::f64);
  const Tokens tokens = make_tokens(bench.backend(), 1, 2);
  bench.route(tokens, {1, 0, 1, 0});
  const Routing all_to_first = bench.routing();
  const double p = 1 / (1 + std::exp(-1.0));
  Tape tape(bench.backend());
  Routing other = all_to_first;
  other.scores_TE = tape.input(reals(bench.backend(), DType::f64, {2, 2}, {1 - p, p, 1 - p, p}));
  BalancerBench loss("type = \"pooled_aux\"", 2, 1);
  const std::vector<Routing> layers{all_to_first, other}, same{all_to_first, all_to_first};
  CHECK(value_of(loss.pooled_loss(tape, layers, tokens)) == doctest::Approx(1.0));
  CHECK(value_of(loss.pooled_loss(tape, same, tokens)) == doctest::Approx(2 * p));
}

TEST_CASE("bip prices the batch at hand until the loads are even, and keeps the prices") {
  for (const char* type : {"softmax", "sigmoid"}) {
    CAPTURE(type);
    constexpr Index kExperts = 4, kTokens = 64;
    BalancerBench bip("type = \"bip\"\niterations = 20", kExperts, 1);
    RouterBench bench(str("type = \"", type, "\"\nk = 1"), kExperts, DType::f64);
    const Tokens tokens = make_tokens(bench.backend(), 4, kTokens / 4);
    std::vector<double> logits;
    const Rng rng(3, "bip");
    for (Index i = 0; i < kTokens * kExperts; ++i)  // expert 0 is everybody's favourite
      logits.push_back(rng.normal(static_cast<std::uint64_t>(i)) + (i % kExperts == 0 ? 2 : 0));
    const auto most = [&] { return std::ranges::max(bench.routing().plan->counts_kept()); };
    bench.route(tokens, logits);
    CHECK(most() > kTokens / 2);
    const ScopeMap scope({}, tokens, nullptr);
    const ChoicePricing price = [&](const Tensor& key_TE, bool positive) {
      return bip.balancer().price(
          key_TE, positive,
          {tokens, [&](ScopeSpec) -> const ScopeMap& { return scope; }, bip.step_state()});
    };
    bench.route(tokens, logits, bip.balancer().bias(), {}, nullptr, nullptr, &price);
    CHECK(most() <= kTokens / kExperts + 2);
    CHECK(doubles(bip.balancer().bias()) == std::vector<double>(kExperts, 0.0));
    bip.balancer().after_step({});
    bench.route(tokens, logits, bip.balancer().bias());  // as evaluation does
    CHECK(most() <= kTokens / kExperts + 2);
    CHECK(bip.state().all().begin()->first == "test.balancers.label.price");
  }
}
