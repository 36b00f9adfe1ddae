#include <cmath>

#include "core/moe/capacity.h"
#include "tests/moe/moe_fixture.h"

using namespace moelab;
using namespace moelab::test;

TEST_CASE("capacity takes the factor as the decimal that was written") {
  CHECK(capacity(10, 1, 1, 1.1, 0) == 11);  // in binary 1.1 · 10 rounds up to 12
  CHECK(capacity(100, 3, 3, 1.1, 0) == 110);
  CHECK(capacity(7, 2, 4, 1.0, 0) == 4);
  CHECK(capacity(12, 2, 4, 1.25, 0) == 8);
  CHECK(capacity(10, 3, 8, 5.0, 0) == 19);
  CHECK(capacity(1, 1, 64, 0.001, 0) == 1);
  CHECK(capacity(1, 1, 64, 0.001, 4) == 4);
  CHECK(capacity(std::int64_t{1} << 24, 8, 256, 1.05, 0) == 550503);  // 550502.4
  CHECK(capacity(3, 1, 1, 1e-300, 0) == 1);
}

TEST_CASE("capacity equals the ceiling of exact fractions") {
  for (Index hundredths = 1; hundredths <= 300; hundredths += 7)
    for (const Index tokens : {1, 5, 12, 100, 999})
      for (const Index experts : {1, 3, 8}) {
        const Index above = tokens * 2 * hundredths, below = experts * 100;
        CHECK(capacity(tokens, 2, experts, std::stod(str(hundredths, "e-2")), 0) ==
              (above + below - 1) / below);
      }
}

TEST_CASE("each phase has its factor; inference drops nothing unless asked") {
  CapacityParams params;
  params.capacity_factor = 1.5;
  CHECK(params.factor(Phase::train) == 1.5);
  CHECK(params.factor(Phase::eval) == 1.5);
  CHECK(params.factor(Phase::inference) == 0);
  params.eval_capacity_factor = 2;
  CHECK(params.factor(Phase::eval) == 2);
  params.drop_in_inference = true;
  CHECK(params.factor(Phase::inference) == 2);
}

TEST_CASE("a dropper's contradictions are named") {
  const Dropper::Facts two_ranks{8, 2, 8, 2, 16, true, false};
  CHECK(problems<Dropper>("type = \"probs\"", two_ranks).empty());
  const std::string pad = "type = \"probs\"\npad_to_capacity = true\n";
  CHECK(problems<Dropper>(pad, two_ranks).find("scope that lies inside a rank") !=
        std::string::npos);
  CHECK(problems<Dropper>(pad + "scope = \"sequence\"", two_ranks).empty());
  CHECK(problems<Dropper>(pad + "scope = \"group\"\ngroup_size = 4", two_ranks).empty());
  CHECK(!problems<Dropper>(pad + "scope = \"group\"\ngroup_size = 8", two_ranks).empty());
  CHECK(problems<Dropper>("type = \"probs\"\nscope = \"group\"\ngroup_size = 3", two_ranks)
            .find("does not divide") != std::string::npos);
  CHECK(problems<Dropper>("type = \"probs\"\ngroup_size = 2", two_ranks).find("no effect") !=
        std::string::npos);
  CHECK(
      problems<Dropper>("type = \"position\"", {8, 2, 8, 1, 16, false, false}).find("dispatcher") !=
      std::string::npos);
  CHECK(problems<Dropper>("type = \"position\"\ndrop_in_inference = true",
                          {8, 2, 8, 1, 16, true, true})
            .find("generation") != std::string::npos);
}

TEST_CASE("padding fills every expert to the capacity of all instances, beside the tokens") {
  RouterBench bench("type = \"softmax\"", 4, DType::f64);
  const Tokens tokens = make_tokens(bench.backend(), 3, 2, {1, 1, 1, 1, 0, 0});
  bench.route(tokens, {9, 8, 0, 0, 9, 8, 0, 0, 9, 8, 0, 0, 0, 0, 8, 9, 1, 2, 3, 4, 1, 2, 3, 4});
  RoutingPlan plan = *bench.routing().plan;
  const ScopeMap scope({ScopeKind::sequence, 0}, tokens, nullptr);
  component<Dropper>(
      "type = \"position\"\ncapacity_factor = 1.0\npad_to_capacity = true\n"
      "scope = \"sequence\"")
      .make({4, 2, 0})
      ->drop(plan, bench.routing().weight_P.value,
             {tokens, {}, 0, 4, 2, [&](ScopeSpec) -> const ScopeMap& { return scope; }});
  plan.validate();
  // C = 1 a sequence; the third sequence is padding and has no rows at all.
  CHECK(plan.counts_kept() == std::vector<Index>{2, 2, 1, 1});
  CHECK(plan.filler_E == std::vector<Index>{0, 0, 1, 1});
  CHECK(plan.counts_before_drop() == std::vector<Index>{3, 3, 1, 1});
}
