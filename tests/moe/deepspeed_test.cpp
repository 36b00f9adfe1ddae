// What DeepSpeed's routers draw themselves; on recorded draws they are compared with its own
// numbers. T tokens, E experts.
#include <cmath>

#include "core/moe/noise.h"
#include "tests/moe/moe_fixture.h"

using namespace moelab;
using namespace moelab::test;

namespace {

constexpr Index kTokens = 4096;
const std::vector<double> kLogits{1.0, 0.0, -1.0, 0.5};

// How often each expert is choice `slot` of tokens with the same logits.
std::vector<double> frequencies(const std::string& recipe, Index k, Index slot,
                                const Moment& moment = {}) {
  RouterBench bench(recipe, 4, DType::f64);
  std::vector<double> logits_TE;
  for (Index t = 0; t < kTokens; ++t)
    logits_TE.insert(logits_TE.end(), kLogits.begin(), kLogits.end());
  bench.route(make_tokens(bench.backend(), 1, kTokens), logits_TE, {}, moment);
  std::vector<double> out(4, 0.0);
  for (Index t = 0; t < kTokens; ++t)
    out[static_cast<std::size_t>(
        bench.routing().plan->expert_P[static_cast<std::size_t>(t * k + slot)])] +=
        1.0 / static_cast<double>(kTokens);
  return out;
}

// Within four standard deviations of a frequency of kTokens draws.
void check_like(const std::vector<double>& found, const std::vector<double>& expected) {
  for (std::size_t e = 0; e < found.size(); ++e) {
    CAPTURE(e);
    const double deviation =
        std::sqrt(expected[e] * (1 - expected[e]) / static_cast<double>(kTokens));
    CHECK(std::abs(found[e] - expected[e]) <= 4 * deviation);
  }
}

std::vector<double> probabilities(bool without_first) {
  std::vector<double> out;
  double sum = 0;
  for (const double l : kLogits) {
    out.push_back(without_first && l == 1.0 ? 0 : std::exp(l));
    sum += out.back();
  }
  for (double& p : out) p /= sum;
  return out;
}

Moment in(Phase phase) {
  Moment moment;
  moment.phase = phase;
  return moment;
}

}  // namespace

TEST_CASE("deepspeed_top1 samples experts by their probability, in training only") {
  const std::string recipe = "type = \"deepspeed_top1\"\nsample = true";
  check_like(frequencies(recipe, 1, 0), probabilities(false));
  CHECK(frequencies(recipe, 1, 0, in(Phase::eval)) == std::vector<double>{1, 0, 0, 0});
}

TEST_CASE("deepspeed_top2 samples the second expert by its probability among the others") {
  const std::string recipe = "type = \"deepspeed_top2\"\nsecond_choice = ";
  for (const Phase phase : {Phase::train, Phase::eval}) {
    CHECK(frequencies(recipe + "\"sampled\"", 2, 0, in(phase)) == std::vector<double>{1, 0, 0, 0});
    check_like(frequencies(recipe + "\"sampled\"", 2, 1, in(phase)), probabilities(true));
  }
  const std::string training = recipe + "\"sampled_in_training\"";
  check_like(frequencies(training, 2, 1), probabilities(true));
  CHECK(frequencies(training, 2, 1, in(Phase::eval)) == std::vector<double>{0, 0, 0, 1});
  CHECK(frequencies(recipe + "\"largest\"", 2, 1) == std::vector<double>{0, 0, 0, 1});
}

TEST_CASE("in inference a token's noise is that of its row and position, however it arrives") {
  const auto backend = Backend::cpu();
  const NoiseSpec spec{NoiseKind::gumbel, "router/gumbel", "test.gumbel", 3};
  const Tokens whole = make_tokens(*backend, 2, 8);
  const Tensor all = token_noise(*backend, spec, whole, in(Phase::inference), 0, nullptr);
  Tokens last = make_tokens(*backend, 2, 1);
  for (Index row = 0; row < 2; ++row) last.position_T.data<std::int32_t>()[row] = 5;
  const Tensor one = token_noise(*backend, spec, last, in(Phase::inference), 0, nullptr);
  for (Index row = 0; row < 2; ++row)
    CHECK(doubles(one.rows(row, 1)) == doubles(all.rows(row * 8 + 5, 1)));
  CHECK(doubles(all.rows(0, 1)) != doubles(all.rows(8, 1)));
}
