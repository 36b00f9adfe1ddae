// Droppers and balancers give the same on any number of ranks.
#include <mutex>

#include "core/comm/world.h"
#include "tests/moe/moe_fixture.h"
#include "tests/support/tolerance.h"

using namespace moelab;
using namespace moelab::test;

namespace {

constexpr Index kRows = 8, kLength = 6, kExperts = 5;

std::vector<double> all_logits() {
  const Rng rng(11, "test/logits");
  std::vector<double> logits;
  for (Index i = 0; i < kRows * kLength * kExperts; ++i)
    logits.push_back(rng.normal(static_cast<std::uint64_t>(i)));
  return logits;
}

std::vector<double> validity() {
  std::vector<double> valid;
  for (Index t = 0; t < kRows * kLength; ++t)
    valid.push_back(t % 11 == 3 || t / kLength == 5 ? 0 : 1);
  return valid;
}

template <class T>
std::vector<T> cut(const std::vector<T>& all, Index first, Index rows) {
  const auto width = static_cast<Index>(all.size()) / kRows;
  return {all.begin() + first * width, all.begin() + (first + rows) * width};
}

struct Outcome {
  std::vector<PairFate> fate;    // of all pairs, in global order
  std::vector<double> gradient;  // of the loss with respect to the logits
  double loss = 0;
};

Outcome run(int ranks, const std::string& dropper_recipe, const std::string& balancer_recipe,
            Index instances) {
  Outcome out;
  out.fate.resize(kRows * kLength * 2);
  out.gradient.resize(kRows * kLength * kExperts);
  std::mutex guard;
  const auto world = Component<World>("inproc").make({.ranks = ranks});
  world->run([&](Rank& rank) {
    const Index rows = kRows / ranks, first = rank.rank() * rows;
    const auto dp = rank.everyone();
    RouterBench router("type = \"softmax\"", kExperts, DType::f64);
    const Tokens tokens =
        make_tokens(router.backend(), rows, kLength, cut(validity(), first, rows), first, kRows);
    router.route(tokens, cut(all_logits(), first, rows));
    RoutingPlan plan = *router.routing().plan;
    std::vector<std::unique_ptr<ScopeMap>> maps;
    component<Dropper>(dropper_recipe)
        .make({kExperts, 2, 0})
        ->drop(plan, router.routing().weight_P.value,
               {tokens, {}, 0, kExperts, 2, [&](ScopeSpec spec) -> const ScopeMap& {
                  maps.push_back(std::make_unique<ScopeMap>(spec, tokens, dp));
                  return *maps.back();
                }});
    BalancerBench balancer(balancer_recipe, kExperts, 2);
    const LossTerm term = balancer.loss(router.tape(), router.routing(), tokens, instances, dp);
    CHECK(!term.replicated);
    router.tape().seed(term.value, 1.0);
    const std::vector<double> gradient = router.logits_gradient();
    const std::lock_guard lock(guard);
    out.loss += doubles(term.value.value)[0];
    std::copy(plan.fate_P.begin(), plan.fate_P.end(), out.fate.begin() + first * kLength * 2);
    std::copy(gradient.begin(), gradient.end(), out.gradient.begin() + first * kLength * kExperts);
  });
  return out;
}

}  // namespace

TEST_CASE("dropping and losses are the same on 1, 2 and 4 ranks for every scope") {
  const std::vector<std::pair<std::string, Index>> scopes{{"scope = \"sequence\"", kRows - 1},
                                                          {"scope = \"group\"\ngroup_size = 2", 4},
                                                          {"scope = \"group\"\ngroup_size = 4", 2},
                                                          {"scope = \"batch\"", 1}};
  for (const auto& [scope, instances] : scopes)
    for (const std::string policy :
         {"probs", "position", "choice_rank", "batch_prioritized", "random"}) {
      const std::string dropper = "type = \"" + policy + "\"\ncapacity_factor = 0.8\n" + scope;
      const Outcome one = run(1, dropper, "type = \"aux_loss\"\n" + scope, instances);
      CHECK(std::count(one.fate.begin(), one.fate.end(), PairFate::capacity) > 3);
      for (const int ranks : {2, 4}) {
        CAPTURE(scope);
        CAPTURE(ranks);
        const Outcome many = run(ranks, dropper, "type = \"aux_loss\"\n" + scope, instances);
        CHECK(many.fate == one.fate);
        CHECK(many.loss == doctest::Approx(one.loss).epsilon(tolerance(DType::f64).reordered));
        CHECK(many.gradient == one.gradient);
      }
    }
}

TEST_CASE("global_aux_loss is the same on 1, 2 and 4 ranks") {
  const Outcome one = run(1, "type = \"none\"", "type = \"global_aux_loss\"", 1);
  for (const int ranks : {2, 4}) {
    const Outcome many = run(ranks, "type = \"none\"", "type = \"global_aux_loss\"", 1);
    CHECK(many.loss == doctest::Approx(one.loss).epsilon(tolerance(DType::f64).reordered));
    CHECK(many.gradient == one.gradient);
  }
}
