// The pooled load-balancing loss of transformers' models. Theirs is k at perfect balance, ours 1.
#include "tests/golden_tests/suite.h"
#include "tests/moe/moe_fixture.h"

namespace moelab::test {
namespace {

constexpr double kTolerance = golden_tolerance(DType::f32);

Outcome run_case(const GoldenCase& c) {
  c.ignore({"source", "same_source_in"});
  const Index layers = c.integer("layers"), experts = c.integer("num_experts");
  const Index k = c.integer("top_k");
  const auto backend = Backend::cpu();
  const Tokens tokens =
      make_tokens(*backend, c.integer("batch"), c.integer("length"),
                  c.flag("masked") ? c.tensor("attention_mask").values : Values{});
  Tape tape(*backend);
  std::vector<Variable> logits;
  std::vector<std::unique_ptr<RouterBench>> routers;
  std::vector<Routing> routings;
  for (Index i = 0; i < layers; ++i) {
    const GoldenTensor& given = c.tensor("logits." + std::to_string(i));
    routers.push_back(std::make_unique<RouterBench>("type = \"softmax\"\nk = " + std::to_string(k),
                                                    experts, DType::f32));
    logits.push_back(
        tape.input(reals(*backend, DType::f32, {given.size(0), given.size(1)}, given.values)));
    routings.push_back(routers.back()->route_on(tape, logits.back(), tokens));
  }
  BalancerBench bench("type = \"pooled_aux\"", experts, k, DType::f32);
  const LossTerm term = bench.pooled_loss(tape, routings, tokens);
  const auto factor = static_cast<double>(k);
  tape.seed(term.value, factor);
  tape.backward();
  Comparison to;
  to.same("loss", doubles(term.value.value)[0] * factor, c.tensor("loss").values.at(0), kTolerance);
  for (Index i = 0; i < layers; ++i)
    to.same("grad." + std::to_string(i),
            doubles(tape.grad(logits[static_cast<std::size_t>(i)].slot())),
            c.tensor("grad." + std::to_string(i)), kTolerance);
  return to.outcome();
}

const RegisterSuite registered{"hf_aux", run_case};

}  // namespace
}  // namespace moelab::test
