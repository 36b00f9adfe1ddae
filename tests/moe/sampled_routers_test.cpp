// Routers that sample, and the cosine router: hand-computed routing with recorded draws.
#include <algorithm>
#include <cmath>

#include "tests/moe/moe_fixture.h"

using namespace moelab;
using namespace moelab::test;

namespace {

// Draws by name; what is not named is drawn by the router itself.
NoiseSource recorded(const std::map<std::string, std::vector<double>>& draws) {
  return [draws](std::string_view name, const Tensor& out) {
    const auto at = draws.find(std::string(name));
    if (at == draws.end()) return false;
    REQUIRE(out.numel() == static_cast<Index>(at->second.size()));
    std::ranges::copy(at->second, out.data<double>());
    return true;
  };
}

// One row of tokens through a router over H = 4, whose parameters a test sets by name.
struct Sampled {
  std::shared_ptr<Backend> backend = Backend::cpu();
  StateStore state{"layer"};
  std::unique_ptr<Router> router;
  std::unique_ptr<Tape> tape;
  Variable x_TH;
  explicit Sampled(const std::string& recipe, Index experts = 4) {
    router =
        component<Router>(recipe).make({*backend, DType::f64, 4, experts, 0, "gate", 0.5, state});
    router->parameters([](Parameter& p) { initialize(p, 5); });
  }
  void set(const std::string& name, const std::vector<double>& values) {
    router->parameters([&](Parameter& p) {
      if (p.name == name) copy(reals(*backend, DType::f64, p.value.shape(), values), p.value);
    });
  }
  void identity(const std::string& name) {
    set(name, {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1});
  }
  Routing route(const std::vector<double>& x, Phase phase, const NoiseSource& noise = {}) {
    tape = std::make_unique<Tape>(*backend);
    const Index tokens = static_cast<Index>(x.size()) / 4;
    x_TH = tape->input(reals(*backend, DType::f64, {tokens, 4}, x));
    tokens_ = make_tokens(*backend, 1, tokens);
    Moment moment;
    moment.phase = phase;
    Routing out =
        router->route(*tape, {x_TH, tokens_, moment, 0, nullptr, &noise, {}, {}, nullptr});
    out.plan->validate();
    return out;
  }
  std::vector<double> gradient(const Routing& routing, const std::vector<double>& dweight_P) {
    tape->seed(routing.weight_P,
               reals(*backend, DType::f64, routing.weight_P.value.shape(), dweight_P));
    tape->backward();
    return doubles(tape->grad(x_TH.slot()));
  }

 private:
  Tokens tokens_;
};

void check_close(const std::vector<double>& got, const std::vector<double>& want) {
  REQUIRE(got.size() == want.size());
  for (std::size_t i = 0; i < got.size(); ++i) CHECK(got[i] == doctest::Approx(want[i]));
}

}  // namespace

TEST_CASE("noisy_topk: noise of a trained size moves the choice in training alone") {
  Sampled noisy("type = \"noisy_topk\"\nk = 2\nnoise_epsilon = 0.5");
  noisy.identity("gate.weight");
  const std::vector<double> x{4, 3, 2, 1};
  const Routing plain = noisy.route(x, Phase::eval);
  CHECK(plain.plan->expert_P == std::vector<std::int32_t>{0, 1});
  CHECK(!plain.noise_std_TE);
  check_close(doubles(plain.logits_TE.value), x);
  // softplus(0) + 0.5 = 1.193: expert 3 gains 4.77.
  const double std = std::log(2.0) + 0.5;
  const Routing moved = noisy.route(x, Phase::train, recorded({{"gate.noise", {0, -1, 0, 4}}}));
  CHECK(moved.plan->expert_P == std::vector<std::int32_t>{3, 0});
  check_close(doubles(moved.clean_logits_TE.value), x);
  check_close(doubles(moved.noise_std_TE.value), {std, std, std, std});
  check_close(doubles(moved.logits_TE.value), {4, 3 - std, 2, 1 + 4 * std});
  const double share = 1 / (1 + std::exp(4 - (1 + 4 * std)));
  check_close(doubles(moved.weight_P.value), {share, 1 - share});
  // Its own draws differ from token to token, and need no recording.
  const Routing drawn = noisy.route({1, 1, 1, 1, 1, 1, 1, 1}, Phase::train);
  const std::vector<double> logits = doubles(drawn.logits_TE.value);
  CHECK(!std::equal(logits.begin(), logits.begin() + 4, logits.begin() + 4));
}

TEST_CASE("sparse_mixer: candidates near the best, sampled in training, best elsewhere") {
  Sampled mixer("type = \"sparse_mixer\"\nepsilon = 0.3");
  mixer.identity("gate.weight");
  const std::vector<double> x{2, 1.5, 0.5, -1};
  const auto share = [](double a, double b) { return 1 / (1 + std::exp(b - a)); };
  // Round 1: below 2 by at most 60 %: 2 and 1.5. Round 2: 1.5 alone, since 0.5 lies 67 % below.
  const Routing best = mixer.route(x, Phase::eval);
  CHECK(best.plan->expert_P == std::vector<std::int32_t>{0, 1});
  check_close(doubles(best.weight_P.value), {share(2, 1.5), 1});
  const double p = share(1.5, 2);
  // Sampled: expert 1, then 0 (the best left). u decides between a third and all of the weight.
  const std::vector<double> gumbel{0, 3, 9, 9, 0, 9, 0, 9};
  for (const double u : {0.5, 0.9}) {
    const Routing sampled =
        mixer.route(x, Phase::train, recorded({{"gate.gumbel", gumbel}, {"gate.mixer", {u, 0.0}}}));
    CHECK(sampled.plan->expert_P == std::vector<std::int32_t>{1, 0});
    check_close(doubles(sampled.weight_P.value), {u > 0.75 ? p : p / 3, 1});
    // The estimate does not see the factor.
    check_close(mixer.gradient(sampled, {1, 0}), {-p * (1 - p), p * (1 - p), 0, 0});
  }
}

TEST_CASE("sparse_mixer samples in proportion to its softmax") {
  Sampled mixer("type = \"sparse_mixer\"\nk = 1\nepsilon = 0.5");
  mixer.identity("gate.weight");
  constexpr Index kDraws = 4000;
  std::vector<double> x;
  for (Index t = 0; t < kDraws; ++t) x.insert(x.end(), {2, 1, -9, -9});
  const Routing sampled = mixer.route(x, Phase::train);
  const auto first = std::ranges::count(sampled.plan->expert_P, 0);
  const double expected = 1 / (1 + std::exp(-1.0));
  CHECK(std::abs(static_cast<double>(first) / kDraws - expected) < 0.03);
}

TEST_CASE("cosine: directions alone decide; the temperature is trained and has a floor") {
  Sampled cosine("type = \"cosine\"\nk = 1\nnormalize = false\nwidth = 4\ntemperature = 0.5");
  cosine.identity("gate.weight");
  cosine.identity("gate.embedding");
  const auto logits = [&](const std::vector<double>& x) {
    return doubles(cosine.route(x, Phase::eval).logits_TE.value);
  };
  check_close(logits({3, 4, 0, 0}), {1.2, 1.6, 0, 0});
  check_close(logits({30, 40, 0, 0}), {1.2, 1.6, 0, 0});
  cosine.set("gate.coldness", {std::log(2.0)});
  check_close(logits({3, 4, 0, 0}), {2.4, 3.2, 0, 0});
  cosine.set("gate.coldness", {50.0});
  check_close(logits({3, 4, 0, 0}), {60, 80, 0, 0});
  CHECK(cosine.router->gate() == nullptr);
}
