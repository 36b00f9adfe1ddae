// What `moelab new balancer NAME` writes.
#include "core/cli/templates.h"

namespace moelab {
namespace {

constexpr const char* kComponent =
    R"file(// @name@: the load-balancing loss of Switch Transformers over the batch,
//   L = E * sum over experts of f_i * P_i,  f = share of the choices, P = mean score.
// E experts.
#include "core/autograd/functions.h"
#include "core/moe/switch_loss.h"

namespace moelab {
namespace {

class @Name@ final : public Balancer {
 public:
  static constexpr ScopeSpec kScope{ScopeKind::batch, 0};
  struct Params {
    double coefficient = 0.01;
    void describe(ParamVisitor& v) {
      v("coefficient", coefficient, "weight of the loss in the objective", at_least(0));
    }
    Balancer::Traits traits() const { return {.has_loss = true, .scope = kScope}; }
    std::string formula() const {
      return str("L = experts * sum over experts of f_i * P_i; objective + ", exact(coefficient),
                 " * L");
    }
  };
  @Name@(const Params& params, const Context& context)
      : params_(params), k_(context.k), label_(context.label) {}

  std::optional<LossTerm> loss(Tape& tape, const BalancerInput& input) override {
    const ScopeMap& scope = input.scope(kScope);
    // A recomputed segment takes these from the first pass: summing over ranks is not repeated.
    const Tensor factor_GE = tape.remember([&] { return factors(tape.backend(), input, scope); });
    LossTerm term;
    term.name = label_;
    term.value = weighted_score_sum(tape, input.routing.scores_TE, factor_GE,
                                    scope.instance_of_valid(input.tokens));
    term.coefficient = params_.coefficient;
    term.replicated = false;  // each rank has the part of its tokens
    return term;
  }

 private:
  // E * f_i / (valid tokens of the batch * batches of the step): what a token's score counts.
  Tensor factors(const Backend& backend, const BalancerInput& input, const ScopeMap& scope) const {
    const Tensor count_GE =
        count_choices(backend, input.routing, input.tokens, k_, CountSource::routed, scope);
    const Tensor factor_GE = backend.zeros(DType::f64, count_GE.shape());
    const auto count = count_GE.span<std::int64_t>();
    const auto factor = factor_GE.span<double>();
    double total = 0;
    for (const std::int64_t choices : count) total += static_cast<double>(choices);
    const auto tokens = static_cast<double>(scope.valid().front());
    const auto batches = static_cast<double>(input.instances_in_step(kScope));
    for (std::size_t i = 0; i < count.size() && total > 0; ++i)
      factor[i] = static_cast<double>(count.size()) * static_cast<double>(count[i]) /
                  (total * tokens * batches);
    return factor_GE;
  }

  Params params_;
  Index k_;
  std::string label_;
};

const Register<Balancer, @Name@> registered{"@name@",
                                                "load-balancing loss over the batch"};

}  // namespace
}  // namespace moelab
)file";

constexpr const char* kTest = R"file(// What @name@ promises beside the contracts.
#include <cmath>
#include <iostream>
#include <string>

#include "core/lab/layer_bench.h"

using namespace moelab;

int main() {
  int failures = 0;
  const auto expect = [&](bool kept, const std::string& promise) {
    if (kept) return;
    std::cerr << "@name@: broken: " << promise << "\n";
    ++failures;
  };
  MoeParams layer;
  expect(layer.balancers.add("@name@").choose("@name@"), "it is registered");
  with_ranks(1, 1, [&](RankContext& ranks) {
    const LayerRun run = LayerBench(layer, {}, ranks).forward();
    expect(run.losses.size() == 1, "it gives one loss");
    // Routing by learned scores is a little uneven: more than 1, far from the worst, E = 8.
    expect(run.losses.at(0) > 1 && run.losses.at(0) < 4, "the loss is 1 at balance");
  });
  return failures == 0 ? 0 : 1;
}
)file";

const RegisterTemplate registered{{"balancer", "balancers", kComponent, kTest}};

}  // namespace
}  // namespace moelab
