// ReLU routing (ReMoE, Wang et al. 2024, arXiv:2412.14711): a token goes to every expert whose
// logit is positive, with the logit as weight; continuous and differentiable throughout. The
// balancer relu_sparsity holds the number of experts at the target. T tokens, E experts.
#include "core/moe/gate.h"
#include "core/moe/pair_routing.h"

namespace moelab {
namespace {

// Marks the positive logits of valid tokens [T·E].
std::vector<std::uint8_t> positive(const Tensor& scores_TE) {
  std::vector<std::uint8_t> taken(static_cast<std::size_t>(scores_TE.numel()));
  dispatch_real(scores_TE.dtype(), "relu", [&](auto zero) {
    const auto* score = scores_TE.data<decltype(zero)>();
    for (std::size_t i = 0; i < taken.size(); ++i) taken[i] = score[i] > 0 ? 1 : 0;
  });
  return taken;
}

class ReluRouter final : public GatedRouter {
 public:
  struct Params : GateParams {
    double mean_k = 2.0;
    double scaling = 1.0;
    void describe(ParamVisitor& v) {
      v("mean_k", mean_k,
        "experts a token should use on average: the target of balancer relu_sparsity, and what "
        "explain counts work with",
        greater_than(0));
      v("scaling", scaling, "factor on the combine weights", greater_than(0));
      GateParams::describe(v);
    }
    void check(const Router::Facts& facts, Checker& checker) const {
      if (mean_k > static_cast<double>(facts.experts))
        checker.error("mean_k", "is more than the layer's ", facts.experts, " experts");
      if (facts.has_choice_bias)
        checker.error("", "has no place for a choice bias: it chooses by the sign of the logit; ",
                      "remove the balancer that adds one");
    }
    Router::Traits traits() const {
      Router::Traits traits = GateParams::traits();
      traits.variable_k = true;
      traits.mean_k = mean_k;
      return traits;
    }
    std::string formula() const {
      return str("logits l = ", logits_text(), "; choose the experts with l > 0; weights w_i = l_i",
                 scaling == 1.0 ? "" : " * " + exact(scaling));
    }
  };
  ReluRouter(const Params& params, const Context& context)
      : GatedRouter(params, context), params_(params) {}

  Routing route(Tape& tape, const RouterInput& input) override {
    return route_pairs(
        tape, input, logits(tape, input), {ScoreKind::relu, false, params_.scaling},
        [](const Tensor& scores_TE) { return sorted_pairs(scores_TE, positive(scores_TE)); });
  }

 private:
  Params params_;
};

const Register<Router, ReluRouter> registered{"relu", "every expert with a positive logit (ReMoE)"};

}  // namespace
}  // namespace moelab
