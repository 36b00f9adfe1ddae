// What routers promise beside their formulas: ties, padding, forced routing, jitter, precision.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/moe/moe_fixture.h"

using namespace moelab;
using namespace moelab::test;

namespace {

// A router with random weights over H = 6, for jitter.
struct Noisy {
  std::shared_ptr<Backend> backend = Backend::cpu();
  StateStore state{"test"};
  std::unique_ptr<Router> router;
  explicit Noisy(const std::string& recipe) {
    router = component<Router>(recipe).make({*backend, DType::f64, 6, 4, 2, "gate", 0.5, state});
    router->parameters([](Parameter& p) { initialize(p, 5); });
  }
  std::vector<double> logits(Index first_row, Index rows, Moment moment,
                             const NoiseSource* noise = nullptr) {
    Tape tape(*backend);
    const Tokens tokens = make_tokens(*backend, rows, 3, {}, first_row, 4);
    const Rng rng(9, "x");
    std::vector<double> x;
    for (Index i = first_row * 18; i < (first_row + rows) * 18; ++i)
      x.push_back(rng.normal(static_cast<std::uint64_t>(i)));
    const Variable x_TH = tape.input(reals(*backend, DType::f64, {rows * 3, 6}, x));
    const Routing routing =
        router->route(tape, {x_TH, tokens, moment, 2, nullptr, noise, {}, {}, nullptr});
    return doubles(routing.logits_TE.value);
  }
};

Moment training(Index step, Index micro_batch = 0) {
  Moment moment;
  moment.step = step;
  moment.micro_batch = micro_batch;
  moment.seed = 1;
  return moment;
}

}  // namespace

TEST_CASE("ties go to the lowest expert id, at any width") {
  for (const Index experts : {3, 16, 17, 64}) {
    RouterBench bench("type = \"sigmoid\"\nk = 3", experts, DType::f32);
    bench.route(make_tokens(bench.backend(), 1, 2),
                std::vector<double>(static_cast<std::size_t>(2 * experts), 0.25));
    CHECK(bench.routing().plan->expert_P == std::vector<std::int32_t>{0, 1, 2, 0, 1, 2});
  }
  RouterBench wide("type = \"softmax\"\nk = 2", 40, DType::f64);
  std::vector<double> logits(40, 0.0);
  logits[39] = logits[20] = logits[21] = 1;
  wide.route(make_tokens(wide.backend(), 1, 1), logits);
  CHECK(wide.routing().plan->expert_P == std::vector<std::int32_t>{20, 21});
}

TEST_CASE("padding is absent from plan, weights, scores and gradients") {
  RouterBench bench("type = \"sigmoid\"", 4, DType::f64);
  const std::vector<double> logits{1, 2, 3, 4, 9, 9, 9, 9, 4, 3, 2, 1};
  bench.route(make_tokens(bench.backend(), 1, 3, {1, 0, 1}), logits);
  const auto& plan = *bench.routing().plan;
  CHECK(plan.expert_P == std::vector<std::int32_t>{3, 2, -1, -1, 0, 1});
  CHECK(plan.fate_P[2] == PairFate::absent);
  CHECK(doubles(bench.routing().weight_P.value)[2] == 0);
  CHECK(doubles(bench.routing().scores_TE.value)[5] == 0);
  bench.seed_weights({1, 0, 3, 2, 5, 6, 7, 8, 1, 2, 0, 4});
  const std::vector<double> gradient = bench.logits_gradient();
  CHECK(std::all_of(gradient.begin() + 4, gradient.begin() + 8, [](double g) { return g == 0; }));
  CHECK(gradient[0] == 0);  // not chosen, normalised among the chosen
  CHECK(gradient[2] != 0);
}

TEST_CASE("forced routing takes the ids and weighs at them") {
  RouterBench bench("type = \"softmax\"\nscore_first = true", 4, DType::f64);
  const std::vector<double> logits{1, 2, 3, 4, 4, 3, 2, 1};
  const ForcedRouting forced{{0, 2, 4}, {0, 1, 3, -1}};
  bench.route(make_tokens(bench.backend(), 1, 2), logits, {}, {}, &forced);
  CHECK(bench.routing().plan->expert_P == forced.expert_P);
  const std::vector<double> w = doubles(bench.routing().weight_P.value);
  const double sum = std::exp(-3) + std::exp(-2) + std::exp(-1) + 1;
  CHECK(w[0] == doctest::Approx(std::exp(-3) / sum));
  CHECK(w[1] == doctest::Approx(std::exp(-2) / sum));
  CHECK(w[2] == doctest::Approx(std::exp(-3) / sum));
  CHECK(w[3] == 0);
  const ForcedRouting outside{{0, 2, 4}, {0, 1, 3, 4}};
  CHECK_THROWS_AS(bench.route(make_tokens(bench.backend(), 1, 2), logits, {}, {}, &outside),
                  InternalError);
}

TEST_CASE("logits that are not finite give a valid plan: the policy on losses decides") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const char* type : {"softmax", "sigmoid", "sqrtsoftplus"}) {
    RouterBench bench(str("type = \"", type, "\"\nk = 3"), 5, DType::f32);
    bench.route(make_tokens(bench.backend(), 1, 2), {nan, nan, nan, nan, nan, 1, nan, 2, nan, 3});
  }
}

TEST_CASE("jitter: training only, keyed by global position, step, micro-batch") {
  Noisy plain("type = \"softmax\""), noisy("type = \"softmax\"\njitter = 0.1");
  Moment eval = training(3), inference = training(3);
  eval.phase = Phase::eval;
  inference.phase = Phase::inference;
  const std::vector<double> clean = plain.logits(0, 4, training(3));
  CHECK(noisy.logits(0, 4, eval) == clean);
  CHECK(noisy.logits(0, 4, inference) == clean);
  const std::vector<double> whole = noisy.logits(0, 4, training(3));
  CHECK(whole != clean);
  CHECK(noisy.logits(0, 4, training(3)) == whole);
  CHECK(noisy.logits(0, 4, training(4)) != whole);
  CHECK(noisy.logits(0, 4, training(3, 1)) != whole);
  // A rank that holds rows 2 and 3 draws the same noise for them.
  const std::vector<double> part = noisy.logits(2, 2, training(3));
  CHECK(std::equal(part.begin(), part.end(), whole.begin() + 24));
}

TEST_CASE("jitter plays recorded noise back, in training and in eval") {
  Noisy plain("type = \"softmax\""), noisy("type = \"softmax\"\njitter = 0.1");
  const NoiseSource ones = [](std::string_view name, const Tensor& out) {
    if (name != "gate.jitter") return false;
    std::fill_n(out.data<double>(), out.numel(), 2.0);
    return true;
  };
  std::vector<double> doubled = plain.logits(0, 4, training(3));
  for (double& l : doubled) l *= 2;
  Moment eval = training(3);
  eval.phase = Phase::eval;
  CHECK(noisy.logits(0, 4, training(3), &ones) == doubled);
  CHECK(noisy.logits(0, 4, eval, &ones) == doubled);
}

TEST_CASE("the gate's parameters: names of Hugging Face, bias only when asked") {
  const auto names = [](const std::string& recipe) {
    std::vector<std::string> out;
    Noisy(recipe).router->parameters([&](Parameter& p) {
      out.push_back(str(p.name, " ", p.value.shape().text(), " ", p.decay));
    });
    return out;
  };
  CHECK(names("type = \"softmax\"") == std::vector<std::string>{"gate.weight [4, 6] 1"});
  CHECK(names("type = \"sigmoid\"\nbias = true") ==
        std::vector<std::string>{"gate.weight [4, 6] 1", "gate.bias [4] 0"});
}

TEST_CASE("a router's contradictions are named with their remedy") {
  const Router::Facts facts{16, 8, false, false};
  CHECK(problems<Router>("type = \"softmax\"", facts).empty());
  CHECK(problems<Router>("type = \"softmax\"\nk = 9", facts)
            .find("more than the layer's 8 experts") != std::string::npos);
  CHECK(problems<Router>("type = \"softmax\"\nk = 1", facts).find("score_first = true") !=
        std::string::npos);
  CHECK(problems<Router>("type = \"softmax\"\nnormalize = true", facts).find("no effect") !=
        std::string::npos);
  CHECK(problems<Router>("type = \"sigmoid\"\ngroups = 3\ngroup_limit = 1", facts).find("divide") !=
        std::string::npos);
  CHECK(problems<Router>("type = \"sigmoid\"\ngroups = 4", facts).find("group_limit") !=
        std::string::npos);
  CHECK(problems<Router>("type = \"sigmoid\"\nk = 3\ngroups = 4\ngroup_limit = 1", facts)
            .find("raise group_limit") != std::string::npos);
  CHECK(problems<Router>("type = \"sigmoid\"\nk = 2\ngroups = 4\ngroup_limit = 3", facts)
            .find("set group_top") != std::string::npos);
  CHECK(problems<Router>("type = \"sigmoid\"\ngroup_top = 2", facts).find("no effect") !=
        std::string::npos);
}

TEST_CASE("experts outside the best groups: excluded, or a key of 0 that beats negative ones") {
  const std::vector<double> logits{-1, -2, -9, -9, -8, -8, -7, -7};
  const std::string recipe =
      "type = \"softmax\"\nk = 2\ngroups = 4\ngroup_limit = 1\ngroup_top = 1\n";
  RouterBench excluded(recipe, 8, DType::f64),
      zero(recipe + "group_mask = \"zero\"", 8, DType::f64);
  excluded.route(make_tokens(excluded.backend(), 1, 1), logits);
  zero.route(make_tokens(zero.backend(), 1, 1), logits);
  CHECK(excluded.routing().plan->expert_P == std::vector<std::int32_t>{0, 1});
  CHECK(zero.routing().plan->expert_P == std::vector<std::int32_t>{2, 3});
}

TEST_CASE("choosing by logits tells apart experts whose scores have saturated") {
  const std::vector<double> logits{40, 50, 60, 0};
  RouterBench score("type = \"sigmoid\"\nk = 1", 4, DType::f32);
  RouterBench logit("type = \"sigmoid\"\nk = 1\nchoose_by = \"logit\"", 4, DType::f32);
  score.route(make_tokens(score.backend(), 1, 1), logits);
  logit.route(make_tokens(logit.backend(), 1, 1), logits);
  CHECK(score.routing().plan->expert_P == std::vector<std::int32_t>{0});
  CHECK(logit.routing().plan->expert_P == std::vector<std::int32_t>{2});
}

TEST_CASE("normalisers are parameters of every router with scores") {
  const std::vector<double> logits{0, 0, -50, -50};  // sigmoid: 0.5, 0.5, 0, 0
  const auto weight = [&](const std::string& keys) {
    RouterBench bench("type = \"sigmoid\"\n" + keys, 4, DType::f64);
    bench.route(make_tokens(bench.backend(), 1, 1), logits);
    return doubles(bench.routing().weight_P.value)[0];
  };
  CHECK(weight("k = 2") == doctest::Approx(0.5));
  CHECK(weight("k = 2\nnormalize_epsilon = 1.0") == doctest::Approx(0.25));
  CHECK(weight("k = 2\nnormalize_floor = 2.0") == doctest::Approx(0.25));
  CHECK(weight("k = 2\nnormalize_power = 2.0") == doctest::Approx(std::sqrt(0.5)));
  CHECK(weight("k = 1") == doctest::Approx(0.5));
  CHECK(weight("k = 1\nnormalize_single = true") == doctest::Approx(1.0));
  const Router::Facts facts{16, 8, false, false};
  CHECK(problems<Router>("type = \"sigmoid\"\nnormalize = false\nnormalize_floor = 1.0", facts)
            .find("normalize = true") != std::string::npos);
  CHECK(problems<Router>("type = \"softmax\"\ngroup_mask = \"zero\"", facts).find("no effect") !=
        std::string::npos);
}

TEST_CASE("formulas say what is chosen and how it is weighed") {
  CHECK(component<Router>("type = \"softmax\"\nk = 2").formula().find("the 2 experts") !=
        std::string::npos);
  CHECK(component<Router>("type = \"sigmoid\"\nk = 2\nscaling = 2.5").formula().find("2.5") !=
        std::string::npos);
  CHECK(component<Router>("type = \"softmax\"\njitter = 0.1").traits().train_inference_gap.size() ==
        1);
}

TEST_CASE("a gating residual adds a map of the logits before, and sends gradients through it") {
  const auto backend = Backend::cpu();
  StateStore state("test");
  const auto router = component<Router>("type = \"sigmoid\"\nk = 2\ngating_residual = true")
                          .make({*backend, DType::f64, 3, 3, 1, "gate", 0.02, state});
  const std::vector<double> w{1, 0, 2, 0, 1, 0, 3, 0, 1}, r{0, 2, 0, 1, 0, 0, 0, 0, 3};
  Parameter* residual = nullptr;
  router->parameters([&](Parameter& p) {
    if (p.name == "gate.residual.weight") residual = &p;
    copy(reals(*backend, DType::f64, {3, 3}, p.name == "gate.weight" ? w : r), p.value);
  });
  REQUIRE(residual != nullptr);
  const std::vector<double> x{1, 2, 3, -1, 0, 1}, before{1, 1, 2, 0, 5, -1};
  const Tokens tokens = make_tokens(*backend, 1, 2);
  Tape tape(*backend);
  const Variable x_TH = tape.input(reals(*backend, DType::f64, {2, 3}, x));
  const Variable before_TE = tape.input(reals(*backend, DType::f64, {2, 3}, before));
  RouterInput input{x_TH, tokens, {}, 1, nullptr, nullptr, {}, before_TE, nullptr};
  const Routing routing = router->route(tape, input);
  CHECK(doubles(routing.logits_TE.value) == std::vector<double>{9, 3, 12, 11, 0, -5});
  tape.seed(routing.logits_TE, reals(*backend, DType::f64, {2, 3}, {1, 0, 2, 0, 1, 0}));
  tape.backward();
  CHECK(doubles(tape.grad(before_TE.slot())) == std::vector<double>{0, 2, 6, 1, 0, 0});
  CHECK(doubles(residual->grad) == std::vector<double>{1, 1, 2, 0, 5, -1, 2, 2, 4});

  input.previous_logits_TE = {};
  CHECK(doubles(router->route(tape, input).logits_TE.value) ==
        std::vector<double>{7, 2, 6, 1, 0, -2});
}
