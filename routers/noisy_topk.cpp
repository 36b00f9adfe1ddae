// Noisy top-k gating (Shazeer et al. 2017): Gaussian noise of a trained, token-dependent size on
// the logits while training; the chosen ones' softmax is the weights. T tokens, H hidden, E
// experts.
#include "core/moe/selection.h"
#include "core/moe/training_noise.h"

namespace moelab {
namespace {

class NoisyTopK final : public GatedRouter {
 public:
  struct Params : SelectionParams {
    double noise_epsilon = 0.01;
    void describe(ParamVisitor& v) {
      SelectionParams::describe(v);
      v("noise_epsilon", noise_epsilon, "least standard deviation of the noise", at_least(0));
    }
    void check(const Facts& facts, Checker& checker) const {
      SelectionParams::check(facts, checker);
      if (k == 1)
        checker.warning("k", "makes every combine weight ", exact(scaling),
                        ", so that only balancing losses train the router; take k of 2 or more");
    }
    Traits traits() const {
      Traits traits = SelectionParams::traits();
      traits.stochastic = true;
      traits.parameters = [*this](Index hidden, Index experts) {
        return experts * (2 * hidden + (bias ? 1 : 0) + (gating_residual ? experts : 0));
      };
      traits.train_inference_gap.emplace_back("noise on the logits is drawn in training only");
      return traits;
    }
    std::string formula() const {
      return str("logits h = ", logits_text(), " + N(0, 1) * (softplus(W_noise x) + ",
                 exact(noise_epsilon), "), the noise in training only; choose ",
                 selection_text("h"), "; weights w_i = exp(h_i) / sum over chosen exp(h_j)",
                 scaling_text());
    }
  };
  NoisyTopK(const Params& params, const Context& context)
      : GatedRouter(params, context),
        rule_(params.rule()),
        epsilon_(params.noise_epsilon),
        noise_{NoiseKind::normal, "router/noise", context.name + ".noise", context.experts} {
    // Zeros, as published: the noise begins at the same size for all.
    noise_EH_ = make_parameter(context.backend, context.dtype, context.name + ".noise_weight",
                               {context.experts, context.hidden}, {Init::Kind::zeros, 0}, true);
  }

  Routing route(Tape& tape, const RouterInput& input) override {
    const Variable clean_TE = logits(tape, input);
    const DType dtype = clean_TE.value.dtype();
    const Tensor normal_TE = training_noise(tape.backend(), noise_, input, dtype);
    if (!normal_TE) return route_top_k(tape, input, clean_TE, rule_, input.bias_E);
    const Variable raw_TE = gating(tape, input.x_TH, tape.leaf(noise_EH_), nullptr, dtype);
    const Variable std_TE = softplus(tape, raw_TE, epsilon_);
    const Variable noisy_TE = add(tape, clean_TE, multiply(tape, std_TE, normal_TE));
    Routing out = route_top_k(tape, input, noisy_TE, rule_, input.bias_E);
    out.clean_logits_TE = clean_TE;
    out.noise_std_TE = std_TE;
    return out;
  }
  void parameters(const std::function<void(Parameter&)>& visit) override {
    GatedRouter::parameters(visit);
    visit(noise_EH_);
  }

 private:
  RouterRule rule_;
  double epsilon_;
  NoiseSpec noise_;
  Parameter noise_EH_;
};

const Register<Router, NoisyTopK> registered{
    "noisy_topk", "top-k of logits with trained Gaussian noise, in training"};

}  // namespace
}  // namespace moelab
