// Routers that choose with an eye on other tokens: sinkhorn's plan, quantile balancing's prices.
// T tokens, E experts.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/moe/column_order.h"
#include "core/moe/sinkhorn.h"
#include "tests/moe/moe_fixture.h"

using namespace moelab;
using namespace moelab::test;

namespace {

using Ids = std::vector<std::int32_t>;

// Six tokens and four experts that can be followed on paper.
const std::vector<double> kSmall{1,   .5, -.5, 0,  2,   -1, .3,  .1, .2,  1.5, .7,   -.4,
                                 1.2, .9, .8,  -2, -.3, .4, 1.1, .6, 1.6, 1.4, -1.2, .25};

std::vector<double> drawn(Index tokens, Index experts, double skew, std::uint64_t seed = 3) {
  const Rng rng(seed, "test/across");
  std::vector<double> logits;
  for (Index i = 0; i < tokens * experts; ++i)
    logits.push_back(rng.normal(static_cast<std::uint64_t>(i)) +
                     skew * static_cast<double>(i % experts));
  return logits;
}

double worst_load(const RoutingPlan& plan) {
  const std::vector<Index> load = plan.counts_before_drop();
  return static_cast<double>(*std::ranges::max_element(load)) * static_cast<double>(load.size()) /
         static_cast<double>(std::accumulate(load.begin(), load.end(), Index{0}));
}

SinkhornFactors solve(const std::vector<double>& logits, Index experts, const SinkhornRule& rule) {
  const auto backend = Backend::cpu();
  const auto tokens = static_cast<Index>(logits.size()) / experts;
  const Tokens meta = make_tokens(*backend, 1, tokens);
  const ScopeMap scope({ScopeKind::batch, 0}, meta, nullptr);
  return sinkhorn(reals(*backend, DType::f64, {tokens, experts}, logits), rule, scope, meta);
}

double entry(const SinkhornFactors& f, const std::vector<double>& logits, std::size_t experts,
             std::size_t t, std::size_t e) {
  return std::exp(f.log_row_T[t] + logits[t * experts + e] + f.log_column_GE[e]);
}

const SinkhornRule kMegatron{SinkhornStop::factor_change, 1e-4, 1000, 1e-8};
const std::string kSinkhorn =
    "type = \"sinkhorn\"\nstop = \"factor_change\"\ntolerance = 1e-4\nepsilon = 1e-8\n";

}  // namespace

TEST_CASE("sinkhorn's plan on a case followed by hand") {
  const SinkhornFactors f = solve(kSmall, 4, kMegatron);
  CHECK(f.iterations_G == std::vector<Index>{5});
  const std::vector<double> row{.046048, .039464, .022377, .058775};
  for (std::size_t e = 0; e < 4; ++e)
    CHECK(entry(f, kSmall, 4, 0, e) == doctest::Approx(row[e]).epsilon(1e-4));
  RouterBench bench(kSinkhorn + "k = 2", 4, DType::f64);
  bench.route(make_tokens(bench.backend(), 1, 6), kSmall);
  CHECK(bench.routing().plan->expert_P == Ids{3, 0, 0, 3, 1, 2, 2, 1, 2, 3, 1, 0});
}

TEST_CASE("sinkhorn ends when the column sums are even, or at the bound") {
  SinkhornRule rule;
  rule.tolerance = 1e-9;
  const std::vector<double> logits = drawn(96, 8, 0.7);
  const SinkhornFactors f = solve(logits, 8, rule);
  CHECK(f.iterations_G[0] < rule.max_iterations);
  for (std::size_t e = 0; e < 8; ++e) {
    double column = 0;
    for (std::size_t t = 0; t < 96; ++t) column += entry(f, logits, 8, t, e);
    CHECK(column == doctest::Approx(1.0 / 8).epsilon(1e-9));
  }
  rule.max_iterations = 3;
  CHECK(solve(logits, 8, rule).iterations_G == std::vector<Index>{3});
}

TEST_CASE("sinkhorn: constants added to tokens change nothing, huge logits stay finite") {
  std::vector<double> logits = drawn(40, 4, 0.5);
  const SinkhornFactors before = solve(logits, 4, {});
  for (std::size_t i = 0; i < logits.size(); ++i) logits[i] += i / 4 % 2 == 0 ? 3000 : -3000;
  const SinkhornFactors after = solve(logits, 4, {});
  CHECK(after.iterations_G == before.iterations_G);
  for (std::size_t e = 0; e < 4; ++e)
    CHECK(after.log_column_GE[e] == doctest::Approx(before.log_column_GE[e]).epsilon(1e-9));
}

TEST_CASE("sinkhorn balances in training and chooses by scores elsewhere") {
  for (const Index k : {1, 2}) {
    const std::vector<double> logits = drawn(256, 8, 0.4);
    RouterBench plan(str("type = \"sinkhorn\"\nk = ", k), 8, DType::f32);
    RouterBench plain(str("type = \"softmax\"\nk = ", k), 8, DType::f32);
    const Tokens tokens = make_tokens(plan.backend(), 4, 64);
    plain.route(tokens, logits);
    plan.route(tokens, logits);
    CHECK(worst_load(*plain.routing().plan) > 2);
    CHECK(worst_load(*plan.routing().plan) < 1.35);
    for (const Phase phase : {Phase::eval, Phase::inference}) {
      Moment moment;
      moment.phase = phase;
      plan.route(tokens, logits, {}, moment);
      CHECK(plan.routing().plan->expert_P == plain.routing().plan->expert_P);
    }
  }
}

TEST_CASE("sinkhorn with evaluation = plan chooses everywhere alike, and is not causal") {
  const std::string recipe = "type = \"sinkhorn\"\nevaluation = \"plan\"";
  RouterBench bench(recipe, 4, DType::f64);
  const Tokens tokens = make_tokens(bench.backend(), 1, 6);
  bench.route(tokens, kSmall);
  const Ids trained = bench.routing().plan->expert_P;
  Moment moment;
  moment.phase = Phase::eval;
  bench.route(tokens, kSmall, {}, moment);
  CHECK(bench.routing().plan->expert_P == trained);
  CHECK(!component<Router>(recipe).traits().causal);
  CHECK(component<Router>("type = \"sinkhorn\"").traits().causal);
}

TEST_CASE("sinkhorn and quantile take recorded routing") {
  for (const char* type : {"sinkhorn", "quantile"}) {
    RouterBench bench(str("type = \"", type, "\"\nk = 1"), 4, DType::f64);
    const ForcedRouting forced{{}, {3, 2, 1, 0, 0, -1}};
    bench.route(make_tokens(bench.backend(), 1, 6), kSmall, {}, {}, &forced);
    CHECK(bench.routing().plan->expert_P == forced.expert_P);
  }
}

TEST_CASE("quantile's prices on a case followed by hand") {
  RouterBench bench("type = \"quantile\"", 4, DType::f64);
  const Tokens tokens = make_tokens(bench.backend(), 1, 6);
  const auto price = [&] { return doubles(bench.state().all().at("test.gate.price")); };
  bench.route(tokens, kSmall);
  CHECK(bench.routing().plan->expert_P == Ids{0, 1, 0, 2, 1, 2, 0, 1, 2, 3, 0, 1});
  CHECK(price() == std::vector<double>(4, 0.0));  // moves after the step only
  bench.router().after_step({});
  const std::vector<double> want{.275, -.025, -.125, -.125};
  for (std::size_t e = 0; e < 4; ++e) CHECK(price()[e] == doctest::Approx(want[e]));
}

TEST_CASE(
    "quantile: a step's micro-batches are averaged, its start forgets, evaluation adds none") {
  const auto price = [](RouterBench& bench) {
    return doubles(bench.state().all().at("test.gate.price"));
  };
  const auto route = [](RouterBench& bench, std::uint64_t seed, Phase phase = Phase::train) {
    Moment moment;
    moment.phase = phase;
    bench.route(make_tokens(bench.backend(), 2, 16), drawn(32, 4, 0.3, seed), {}, moment);
  };
  const auto after = [&](std::initializer_list<std::uint64_t> seeds) {
    RouterBench bench("type = \"quantile\"", 4, DType::f64);
    for (const std::uint64_t seed : seeds) route(bench, seed);
    bench.router().after_step({});
    return price(bench);
  };
  const std::vector<double> a = after({1}), b = after({2}), both = after({1, 2});
  for (std::size_t e = 0; e < 4; ++e) CHECK(both[e] == doctest::Approx((a[e] + b[e]) / 2));

  RouterBench bench("type = \"quantile\"\nema = 0.75", 4, DType::f64);
  route(bench, 2);
  bench.begin_step();  // the step before was skipped
  route(bench, 1);
  route(bench, 2, Phase::eval);
  bench.router().after_step({});
  for (std::size_t e = 0; e < 4; ++e) CHECK(price(bench)[e] == doctest::Approx(a[e] / 4));
}

TEST_CASE("quantile balances batches that are like those before") {
  RouterBench bench("type = \"quantile\"", 8, DType::f32);
  const Tokens tokens = make_tokens(bench.backend(), 8, 64);
  std::vector<double> worst;
  for (std::uint64_t step = 0; step < 4; ++step) {
    bench.begin_step();
    bench.route(tokens, drawn(512, 8, 0.4, step));
    worst.push_back(worst_load(*bench.routing().plan));
    bench.router().after_step({});
  }
  CHECK(worst.front() > 2);
  CHECK(worst.back() < 1.3);
}

TEST_CASE("the value at a rank of a column is what sorting says, in between too") {
  const auto backend = Backend::cpu();
  constexpr Index kTokens = 40, kExperts = 3;
  std::vector<double> values = drawn(kTokens, kExperts, 0.1), valid(kTokens, 1.0);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = std::round(4 * values[i]) / 4;  // ties
  valid[5] = valid[17] = valid[39] = 0;
  const Tokens tokens = make_tokens(*backend, 2, kTokens / 2, valid);
  const ScopeMap scope({ScopeKind::sequence, 0}, tokens, nullptr);
  const Tensor table = reals(*backend, DType::f64, {kTokens, kExperts}, values);
  for (const double rank : {0.0, 3.0, 7.25, 16.5, 18.0, 400.0}) {
    const std::vector<double> got = doubles(column_at_rank(table, {rank, rank}, scope, tokens));
    for (std::size_t g = 0; g < 2; ++g)
      for (std::size_t e = 0; e < kExperts; ++e) {
        std::vector<double> column;
        for (std::size_t t = g * kTokens / 2; t < (g + 1) * kTokens / 2; ++t)
          if (valid[t] != 0) column.push_back(values[t * kExperts + e]);
        std::ranges::sort(column, std::greater<>());
        const double at = std::min(rank, static_cast<double>(column.size() - 1));
        const auto low = static_cast<std::size_t>(at), high = std::min(low + 1, column.size() - 1);
        const double share = at - std::floor(at);
        CHECK(got[g * kExperts + e] ==
              doctest::Approx((1 - share) * column[low] + share * column[high]));
      }
  }
}
