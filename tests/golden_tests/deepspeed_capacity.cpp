// DeepSpeed's capacity and the exact one, as the droppers have them: in a plan without pairs every
// expert is filled up to its capacity.
#include "registry/text.h"
#include "tests/golden_tests/suite.h"
#include "tests/moe/moe_fixture.h"

namespace moelab::test {
namespace {

double filled(const std::string& recipe, Index tokens, Index experts, Index k) {
  const auto backend = Backend::cpu();
  const Tokens meta = make_tokens(*backend, 1, tokens);
  const ScopeMap scope({}, meta, nullptr);
  RoutingPlan plan = *uniform_plan(tokens, experts, 1,
                                   std::vector<std::int32_t>(static_cast<std::size_t>(tokens), -1));
  component<Dropper>(recipe)
      .make({experts, k, 0})
      ->drop(plan, backend->zeros(DType::f32, {plan.pairs()}),
             {meta, {}, 0, experts, k, [&](ScopeSpec) -> const ScopeMap& { return scope; }});
  return static_cast<double>(plan.filler_E.front());
}

Outcome run_case(const GoldenCase& c) {
  const Index k = c.integer("k");
  Comparison to;
  Values theirs, ours;
  double differ = 0;
  const Values &tokens = c.tensor("tokens").values, &experts = c.tensor("experts").values,
               &least = c.tensor("min_capacity").values;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const auto rows = [&](const char* rule) {
      return filled(str("type = \"position\"\npad_to_capacity = true\ncapacity_factor = ",
                        c.text("capacity_factor"), "\nmin_capacity = ",
                        static_cast<Index>(least[i]), "\ncapacity_rule = \"", rule, "\""),
                    static_cast<Index>(tokens[i]), static_cast<Index>(experts[i]), k);
    };
    theirs.push_back(rows("deepspeed_f32"));
    ours.push_back(rows("exact"));
    differ += theirs.back() != ours.back() ? 1 : 0;
  }
  to.exact("capacity", theirs, c.tensor("capacity"));
  to.exact("exact_capacity", ours, c.tensor("exact_capacity"));
  to.exact("differ", differ, c.number("differ"));
  return to.outcome();
}

const RegisterSuite registered{"deepspeed_capacity", run_case};

}  // namespace
}  // namespace moelab::test
