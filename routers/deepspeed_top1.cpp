// DeepSpeed's top-1 gate (Rajbhandari et al. 2022, "DeepSpeed-MoE"): the combine weight is the raw
// probability. Its policy "RSample" samples the expert while training (Gumbel-max), "Jitter" is
// jitter = 0.01; random token selection is the dropper "random" with capacity_rule
// "deepspeed_f32", l_aux the balancer "deepspeed_aux". T tokens, E experts.
#include "core/moe/noise.h"
#include "core/moe/selection.h"

namespace moelab {
namespace {

class DeepSpeedTop1 final : public GatedRouter {
 public:
  struct Params : GateParams {
    bool sample = false;
    void describe(ParamVisitor& v) {
      GateParams::describe(v);
      v("sample", sample,
        "while training, choose by logits + Gumbel noise: an expert drawn with its probability");
    }
    Router::Traits traits() const {
      Router::Traits traits = GateParams::traits();
      traits.k = 1;
      traits.stochastic = traits.stochastic || sample;
      if (sample) traits.train_inference_gap.emplace_back("the expert is sampled in training only");
      return traits;
    }
    std::string formula() const {
      return str("logits l = ", logits_text(),
                 ", scores s = softmax(l) over all experts; choose the expert with "
                 "the largest l + choice bias (if a balancer gives one)",
                 sample ? " + Gumbel noise (in training)" : "",
                 ", ties to the lower id; weight s_i");
    }
  };
  DeepSpeedTop1(const Params& params, const Context& context)
      : GatedRouter(params, context),
        sample_(params.sample),
        noise_{NoiseKind::gumbel, "router/gumbel", context.name + ".gumbel", context.experts} {}

  Routing route(Tape& tape, const RouterInput& input) override {
    RouterRule rule;
    rule.k = 1;
    rule.weights = WeightRule::softmax_all;
    const Variable l_TE = logits(tape, input);
    if (!sample_ || input.moment.phase != Phase::train)
      return route_top_k(tape, input, l_TE, rule, input.bias_E);
    const Tensor noise_TE =
        token_noise(tape.backend(), noise_, input.tokens, input.moment, input.layer, input.noise);
    const auto ids = best_expert(l_TE.value, noise_TE, input.bias_E, input.tokens.valid_T);
    return route_top_k(tape, input, l_TE, rule, input.bias_E, &ids);
  }

 private:
  bool sample_;
  NoiseSpec noise_;
};

const Register<Router, DeepSpeedTop1> registered{"deepspeed_top1",
                                                 "top-1 by softmax with the raw probability"};

}  // namespace
}  // namespace moelab
