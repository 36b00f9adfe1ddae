// Routers that give each token a number of experts of its own: top_p, relu, expert_choice.
#include <cmath>

#include "core/lab/layer_bench.h"
#include "core/moe/dropper.h"
#include "tests/moe/moe_fixture.h"

using namespace moelab;
using namespace moelab::test;

namespace {

using Ids = std::vector<std::int32_t>;

std::vector<double> logs(std::vector<double> probabilities) {
  for (double& p : probabilities) p = std::log(p);
  return probabilities;
}

Ids chosen(const RouterBench& bench, Index t) {
  const RoutingPlan& plan = *bench.routing().plan;
  return {plan.expert_P.begin() + plan.begin(t), plan.expert_P.begin() + plan.end(t)};
}

}  // namespace

TEST_CASE("top_p takes experts until p is reached, the one that crosses it included") {
  const std::vector<double> logits = logs({0.2, 0.5, 0.25, 0.05});
  const auto ids = [&](const std::string& keys) {
    RouterBench bench("type = \"top_p\"\n" + keys, 4, DType::f64);
    bench.route(make_tokens(bench.backend(), 1, 1), logits);
    return chosen(bench, 0);
  };
  CHECK(ids("p = 0.4") == Ids{1});
  CHECK(ids("p = 0.51") == Ids{1, 2});
  CHECK(ids("p = 0.8") == Ids{1, 2, 0});
  CHECK(ids("p = 1.0") == Ids{1, 2, 0, 3});
  CHECK(ids("p = 0.8\nmax_k = 2") == Ids{1, 2});
}

TEST_CASE("top_p: ties go to the lower id; the choice bias orders, and gathers nothing") {
  RouterBench bench("type = \"top_p\"\np = 0.3", 4, DType::f64);
  const Tokens tokens = make_tokens(bench.backend(), 1, 2, {1, 0});
  const std::vector<double> logits(8, 0.0);
  bench.route(tokens, logits);
  CHECK(chosen(bench, 0) == Ids{0, 1});
  CHECK(chosen(bench, 1).empty());  // padding
  bench.route(tokens, logits, reals(bench.backend(), DType::f64, {4}, {0, 0, 0, 5}));
  CHECK(chosen(bench, 0) == Ids{3, 0});
  CHECK(doubles(bench.routing().weight_P.value) == std::vector<double>{0.25, 0.25});
}

TEST_CASE("top_p weighs by the probabilities, or by their shares") {
  const auto weights = [](const std::string& keys) {
    RouterBench bench("type = \"top_p\"\np = 0.6\n" + keys, 4, DType::f64);
    bench.route(make_tokens(bench.backend(), 1, 1), logs({0.2, 0.5, 0.25, 0.05}));
    return doubles(bench.routing().weight_P.value);
  };
  CHECK(weights("")[0] == doctest::Approx(0.5));
  CHECK(weights("")[1] == doctest::Approx(0.25));
  CHECK(weights("normalize = true\nscaling = 3.0")[0] == doctest::Approx(2.0));
  CHECK(weights("normalize = true\nscaling = 3.0")[1] == doctest::Approx(1.0));
}

TEST_CASE("relu sends a token to its positive logits, which are the weights") {
  RouterBench bench("type = \"relu\"", 4, DType::f64);
  bench.route(make_tokens(bench.backend(), 1, 3, {1, 1, 0}),
              {1, -2, 3, 0, -1, -1, -1, -1, 5, 5, 5, 5});
  CHECK(chosen(bench, 0) == Ids{2, 0});
  CHECK(chosen(bench, 1).empty());
  CHECK(chosen(bench, 2).empty());  // padding
  CHECK(doubles(bench.routing().weight_P.value) == std::vector<double>{3, 1});
  CHECK(doubles(bench.routing().scores_TE.value) ==
        std::vector<double>{0.25, 0, 0.75, 0, 0, 0, 0, 0, 0, 0, 0, 0});
  bench.seed_weights(std::vector<double>(12, 2.0));
  CHECK(bench.logits_gradient() == std::vector<double>{2, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0});
}

TEST_CASE("a layer whose tokens choose no expert gives exactly 0") {
  with_ranks(1, 1, [](RankContext& ranks) {
    MoeParams params;
    REQUIRE(params.router.choose("relu"));
    LayerBench bench(params, {}, ranks);
    for (Parameter* p : bench.parameters())
      if (p->name.find("gate") != std::string::npos) fill_zero(p->value);
    const LayerRun run = bench.run();
    CHECK(run.record->plan->pairs() == 0);
    CHECK(same_bits(run.y_TH, ranks.backend->zeros(DType::f64, run.y_TH.shape())));
  });
}

TEST_CASE("expert_choice: every expert takes its best tokens, the same number each") {
  RouterBench bench("type = \"expert_choice\"\nmean_k = 1.0", 2, DType::f64);
  // Softmax scores fall with the second logit: expert 0 takes tokens 3 and 1, expert 1 0 and 2.
  bench.route(make_tokens(bench.backend(), 1, 4), {0, 3, 0, -1, 0, 1, 0, -2});
  CHECK(bench.map() == std::vector<double>{0, 1, 1, 0, 0, 1, 1, 0});
  CHECK(doubles(bench.routing().weight_P.value)[0] == doctest::Approx(1 / (1 + std::exp(-3.0))));
  CHECK(bench.routing().plan->uniform_k == 0);
}

TEST_CASE(
    "expert_choice: ties go to the earlier token, padding is not taken, tokens may go empty") {
  RouterBench bench("type = \"expert_choice\"\nmean_k = 1.0", 2, DType::f64);
  bench.route(make_tokens(bench.backend(), 1, 5, {0, 1, 1, 1, 1}), std::vector<double>(10, 0.0));
  CHECK(bench.map() == std::vector<double>{0, 0, 1, 1, 1, 1, 0, 0, 0, 0});
  // By score, ties to the lower expert.
  CHECK(chosen(bench, 1) == Ids{0, 1});
}

TEST_CASE("expert_choice chooses within its scope") {
  const std::vector<double> logits{5, 0, 4, 0, 1, 0, 2, 0};  // of 2 sequences of 2 tokens
  RouterBench batch("type = \"expert_choice\"\nmean_k = 1.0\nscore = \"sigmoid\"", 2, DType::f64);
  batch.route(make_tokens(batch.backend(), 2, 2), logits);
  CHECK(batch.map() == std::vector<double>{1, 1, 1, 1, 0, 0, 0, 0});
  RouterBench each(
      "type = \"expert_choice\"\nmean_k = 1.0\nscore = \"sigmoid\"\nscope = \"sequence\"", 2,
      DType::f64);
  each.route(make_tokens(each.backend(), 2, 2), logits);
  CHECK(each.map() == std::vector<double>{1, 1, 0, 0, 0, 1, 1, 0});
}

TEST_CASE("an expert's whole share is exact and at least 1") {
  CHECK(whole_share(12, 4, 1.0) == 3);
  CHECK(whole_share(10, 11, 1.1) == 1);
  CHECK(whole_share(30, 11, 1.1) == 3);  // 33 / 11; in binary 1.1 · 30 is a little more
  CHECK(whole_share(29, 11, 1.1) == 2);
  CHECK(whole_share(100, 3, 2.0) == 66);
  CHECK(whole_share(2, 64, 1.0) == 1);
  for (Index hundredths = 100; hundredths <= 300; hundredths += 7)
    for (const Index tokens : {5, 12, 100, 999})
      CHECK(whole_share(tokens, 3, std::stod(str(hundredths, "e-2"))) ==
            std::max<Index>(1, tokens * hundredths / 300));
}

TEST_CASE("pairs recorded elsewhere are forced, weights follow from the logits") {
  for (const char* type : {"top_p", "relu", "expert_choice"}) {
    CAPTURE(type);
    RouterBench bench(str("type = \"", type, "\""), 4, DType::f64);
    const ForcedRouting forced{{0, 2, 3}, {3, 0, -1}};
    bench.route(make_tokens(bench.backend(), 1, 2), {1, 9, 9, 2, 9, 9, 9, 9}, {}, {}, &forced);
    CHECK(bench.routing().plan->expert_P == forced.expert_P);
    const std::vector<double> w = doubles(bench.routing().weight_P.value);
    CHECK(w[0] > w[1]);
    CHECK(w[1] > 0);
    CHECK(w[2] == 0);
  }
}

TEST_CASE("contradictions of routers with a number of experts of their own") {
  const Router::Facts facts{16, 8, false, false};
  CHECK(problems<Router>("type = \"top_p\"", facts).empty());
  CHECK(problems<Router>("type = \"top_p\"\nmax_k = 9", facts).find("8 experts") !=
        std::string::npos);
  CHECK(problems<Router>("type = \"top_p\"\nmax_k = 2\nmean_k = 3.0", facts)
            .find("the most experts") != std::string::npos);
  CHECK(problems<Router>("type = \"relu\"\nmean_k = 9.0", facts).find("8 experts") !=
        std::string::npos);
  CHECK(problems<Router>("type = \"expert_choice\"\nmean_k = 9.0", facts).find("8 experts") !=
        std::string::npos);
  const Router::Facts biased{16, 8, false, true};
  for (const char* type : {"relu", "expert_choice"})
    CHECK(
        problems<Router>(str("type = \"", type, "\""), biased).find("no place for a choice bias") !=
        std::string::npos);
}
