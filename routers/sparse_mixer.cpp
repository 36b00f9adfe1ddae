// SparseMixer-v2 (Liu et al. 2023, "Sparse backpropagation for MoE training"; Phi-3.5-MoE): experts
// are sampled near the best one in training, and the gradient through the sampling is estimated.
#include "core/moe/selection.h"
#include "core/moe/training_noise.h"

namespace moelab {
namespace {

class SparseMixerRouter final : public GatedRouter {
 public:
  struct Params : GateParams {
    std::int64_t k = 2;
    double epsilon = 0.01;
    double scaling = 1.0;
    void describe(ParamVisitor& v) {
      v("k", k, "experts chosen per token, one a round", at_least(1));
      v("epsilon", epsilon, "how far below the best an expert may lie, relative, as a half-width",
        from_below(0, 1));
      v("scaling", scaling, "factor on the combine weights", greater_than(0));
      GateParams::describe(v);
    }
    void check(const Facts& facts, Checker& checker) const {
      if (k > facts.experts)
        checker.error("k", "is more than the layer's ", facts.experts,
                      " experts; lower k or raise num_experts");
    }
    Traits traits() const {
      Traits traits = GateParams::traits();
      traits.k = k;
      traits.stochastic = true;
      traits.estimated_gradient = true;
      traits.train_inference_gap.emplace_back(
          "experts are sampled in training; the best are taken elsewhere");
      return traits;
    }
    std::string formula() const {
      return str(
          "logits l = ", logits_text(), "; ", k,
          " rounds: m = the largest l left; candidates have (m - l_e)",
          " / max(|l_e|, m) <= ", exact(2 * epsilon),
          "; choose the best (in training: a sample of their softmax); weight w_i = softmax ",
          "over the candidates", scaling == 1.0 ? "" : " * " + exact(scaling),
          " (in training a third of it for three quarters of the choices that are not the ",
          "best); the next round leaves i out; weights do not sum to 1");
    }
  };
  SparseMixerRouter(const Params& params, const Context& context)
      : GatedRouter(params, context),
        rule_{params.k, params.epsilon, params.scaling},
        gumbel_{NoiseKind::gumbel, "router/gumbel", context.name + ".gumbel",
                params.k * context.experts},
        uniform_{NoiseKind::uniform, "router/mixer", context.name + ".mixer", params.k} {}

  Routing route(Tape& tape, const RouterInput& input) override {
    const Variable logits_TE = logits(tape, input);
    SparseMixerInput in;
    in.bias_E = input.bias_E;
    in.valid_T = input.tokens.valid_T;
    in.forced_P = input.forced ? &input.forced->expert_P : nullptr;
    in.gumbel_PE = training_noise(tape.backend(), gumbel_, input, DType::f64);
    in.uniform_P = training_noise(tape.backend(), uniform_, input, DType::f64);
    const SparseMixerChoice choice =
        sparse_mixer(tape, logits_TE, rule_, in, input.x_TH.value.dtype());
    RouterRule scores;  // over all experts, for balancing losses; its weights are not used
    scores.k = rule_.k;
    scores.weights = WeightRule::softmax_all;
    Routing out = route_top_k(tape, input, logits_TE, scores, {}, &choice.expert_P);
    out.weight_P = choice.weight_P;
    return out;
  }

 private:
  SparseMixerRule rule_;
  NoiseSpec gumbel_, uniform_;
};

const Register<Router, SparseMixerRouter> registered{
    "sparse_mixer", "rounds of sampling near the best, with an estimated gradient"};

}  // namespace
}  // namespace moelab
