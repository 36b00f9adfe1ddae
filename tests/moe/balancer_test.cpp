// What balancers promise beside their numbers.
#include <algorithm>
#include <cmath>

#include "tests/moe/moe_fixture.h"

using namespace moelab;
using namespace moelab::test;

namespace {

// Token t sends its choices to experts t·k, t·k+1, … (mod E) by large logits.
std::vector<double> round_robin(Index tokens, Index experts, Index k) {
  std::vector<double> logits(static_cast<std::size_t>(tokens * experts), 0.0);
  for (Index t = 0; t < tokens; ++t)
    for (Index i = 0; i < k; ++i)
      logits[static_cast<std::size_t>(t * experts + (t * k + i) % experts)] = 3;
  return logits;
}

}  // namespace

TEST_CASE("losses of the form f·P are 1 at perfect balance, for any k, scope and accumulation") {
  for (const char* router : {"softmax", "sigmoid", "sqrtsoftplus"})
    for (const Index k : {1, 2, 4})
      for (const char* balancer :
           {"type = \"aux_loss\"", "type = \"aux_loss\"\ncounts = \"routed\"",
            "type = \"aux_loss\"\nscope = \"group\"\ngroup_size = 2",
            "type = \"sequence_aux_loss\"", "type = \"global_aux_loss\""}) {
        RouterBench bench(str("type = \"", router, "\"\nk = ", k), 8, DType::f64);
        const Tokens tokens = make_tokens(bench.backend(), 4, 8);
        bench.route(tokens, round_robin(32, 8, k));
        BalancerBench loss(balancer, 8, k);
        const bool sequence = std::string(balancer).find("sequence") != std::string::npos;
        const bool group = std::string(balancer).find("group_size") != std::string::npos;
        const LossTerm term = loss.loss(bench.tape(), bench.routing(), tokens,
                                        sequence ? 4
                                        : group  ? 2
                                                 : 1);
        CHECK(doubles(term.value.value)[0] == doctest::Approx(1.0).epsilon(1e-12));
        CHECK(term.name == "label");
        CHECK(term.coefficient == 0.01);
      }
}

TEST_CASE("counts: scores ignore the choice bias, routed counts what was chosen") {
  RouterBench bench("type = \"softmax\"\nk = 1\nscore_first = true", 2, DType::f64);
  const Tokens tokens = make_tokens(bench.backend(), 1, 4);
  const Tensor bias = reals(bench.backend(), DType::f64, {2}, {0, 5});
  bench.route(tokens, {1, 0, 1, 0, 1, 0, 1, 0}, bias);
  CHECK(bench.routing().plan->counts_before_drop() == std::vector<Index>{0, 4});
  const double p = 1 / (1 + std::exp(-1.0));
  const auto value = [&](const std::string& counts) {
    BalancerBench loss("type = \"aux_loss\"\ncounts = \"" + counts + "\"", 2, 1);
    return doubles(loss.loss(bench.tape(), bench.routing(), tokens, 1).value.value)[0];
  };
  CHECK(value("scores") == doctest::Approx(2 * p));
  CHECK(value("routed") == doctest::Approx(2 * (1 - p)));
}

TEST_CASE("global_aux_loss counts the step so far, once under recompute, anew in the next step") {
  BalancerBench loss("type = \"global_aux_loss\"", 2, 1);
  RouterBench bench("type = \"softmax\"\nk = 1\nscore_first = true", 2, DType::f64);
  const Tokens tokens = make_tokens(bench.backend(), 1, 2);
  const auto counts = [&] {
    const auto all = loss.step_state().get(bench.backend(), "counts", DType::i64, {1, 2});
    return std::vector<Index>(all.span<std::int64_t>().begin(), all.span<std::int64_t>().end());
  };
  const double p = 1 / (1 + std::exp(-1.0));
  bench.route(tokens, {1, 0, 1, 0});
  CHECK(doubles(loss.loss(bench.tape(), bench.routing(), tokens, 2).value.value)[0] ==
        doctest::Approx(2 * p / 2));
  bench.route(tokens, {0, 1, 0, 1});  // now both experts have had two of four
  CHECK(doubles(loss.loss(bench.tape(), bench.routing(), tokens, 2).value.value)[0] ==
        doctest::Approx(1.0 / 2));
  CHECK(counts() == std::vector<Index>{2, 2});

  Tape tape(bench.backend());
  const Variable scores = tape.input(bench.routing().scores_TE.value);
  const auto segment = [&](Tape& t, const std::vector<Variable>& in) {
    Routing routing = bench.routing();
    routing.scores_TE = in[0];
    return std::vector<Variable>{loss.loss(t, routing, tokens, 2).value};
  };
  tape.seed(recompute(tape, {scores}, segment)[0], 1.0);
  CHECK(counts() == std::vector<Index>{2, 4});
  tape.backward();
  CHECK(counts() == std::vector<Index>{2, 4});
  // f = [1/3, 2/3]: E·f / (tokens · instances of the step)
  CHECK(doubles(tape.grad(scores.slot()))[0] == doctest::Approx(2.0 / 3 / (2 * 2)));
}

TEST_CASE("a loss over padding alone is zero") {
  RouterBench bench("type = \"softmax\"", 4, DType::f64);
  const Tokens tokens = make_tokens(bench.backend(), 2, 2, {1, 1, 0, 0});
  bench.route(tokens, round_robin(4, 4, 2));
  BalancerBench sequence("type = \"sequence_aux_loss\"", 4, 2), z("type = \"z_loss\"", 4, 2);
  CHECK(doubles(sequence.loss(bench.tape(), bench.routing(), tokens, 1).value.value)[0] ==
        doctest::Approx(1.0));
  const Tokens none = make_tokens(bench.backend(), 2, 2, {0, 0, 0, 0});
  bench.route(none, round_robin(4, 4, 2));
  CHECK(doubles(sequence.loss(bench.tape(), bench.routing(), none, 1).value.value)[0] == 0);
  CHECK(doubles(z.loss(bench.tape(), bench.routing(), none, 1).value.value)[0] == 0);
}

TEST_CASE("z_loss: mean within an instance, then equal weight over those of the step") {
  RouterBench bench("type = \"softmax\"\nk = 1", 2, DType::f64);
  const Tokens tokens = make_tokens(bench.backend(), 3, 2, {1, 1, 1, 0, 0, 0});
  // log(e^l + e^l)² with l = 0, 1, 2 for the valid tokens
  bench.route(tokens, {0, 0, 1, 1, 2, 2, 9, 9, 9, 9, 9, 9});
  const auto square = [](double l) { return std::pow(l + std::log(2.0), 2); };
  const auto value = [&](const std::string& scope, Index instances) {
    BalancerBench loss("type = \"z_loss\"\nscope = \"" + scope + "\"", 2, 1);
    return doubles(loss.loss(bench.tape(), bench.routing(), tokens, instances).value.value)[0];
  };
  CHECK(value("batch", 1) == doctest::Approx((square(0) + square(1) + square(2)) / 3));
  CHECK(value("batch", 4) == doctest::Approx((square(0) + square(1) + square(2)) / 3 / 4));
  CHECK(value("sequence", 2) == doctest::Approx(((square(0) + square(1)) / 2 + square(2)) / 2));
}

TEST_CASE("expert_bias keeps its state in the run's dtype under the layer's name") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    BalancerBench bench("type = \"expert_bias\"", 4, 2, dtype);
    CHECK(bench.balancer().bias().dtype() == dtype);
    CHECK(bench.state().all().begin()->first == "test.balancers.label.bias");
  }
}
