// DeepSpeed's gate for k of 3 and more: softmax over all experts before the top-k. It drops like
// the dropper "probs" (or "position") with capacity_rule "deepspeed_f32" and renormalize = true;
// normalize = false then ranks pairs by raw probability, as DeepSpeed does.
#include "core/moe/selection.h"

namespace moelab {
namespace {

class DeepSpeedTopK final : public GatedRouter {
 public:
  struct Params : GateParams {
    std::int64_t k = 3;
    bool normalize = true;
    void describe(ParamVisitor& v) {
      v("k", k, "experts chosen per token", at_least(1));
      GateParams::describe(v);
      v("normalize", normalize,
        "divide the chosen scores by their sum; false: raw probabilities, for droppers with "
        "renormalize");
    }
    void check(const Router::Facts& facts, Checker& checker) const {
      if (k > facts.experts)
        checker.error("k", "is more than the layer's ", facts.experts,
                      " experts; lower k or raise num_experts");
    }
    Router::Traits traits() const {
      Router::Traits traits = GateParams::traits();
      traits.k = k;
      return traits;
    }
    std::string formula() const {
      return str("logits l = ", logits_text(),
                 ", scores s = softmax(l) over all experts; choose the ", k,
                 " experts with the largest l + choice bias (if a balancer gives one), ties to the "
                 "lower id; weights w_i = s_i",
                 normalize ? " / sum over chosen s_j" : "");
    }
  };
  DeepSpeedTopK(const Params& params, const Context& context) : GatedRouter(params, context) {
    rule_.k = params.k;
    rule_.weights = params.normalize ? WeightRule::softmax_chosen : WeightRule::softmax_all;
  }
  Routing route(Tape& tape, const RouterInput& input) override {
    return route_top_k(tape, input, logits(tape, input), rule_, input.bias_E);
  }

 private:
  RouterRule rule_;
};

const Register<Router, DeepSpeedTopK> registered{"deepspeed_topk",
                                                 "top-k by softmax over all experts"};

}  // namespace
}  // namespace moelab
