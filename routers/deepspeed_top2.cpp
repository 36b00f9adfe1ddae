// DeepSpeed's top-2 gate (after GShard, Lepikhin et al. 2020): the second expert is sampled among
// the others by Gumbel-max, in evaluation too, as DeepSpeed does by default. It drops like the
// dropper "choice_rank" with capacity_rule "deepspeed_f32" and renormalize = true, beside which
// normalize = false leaves the weights to the dropper. T tokens, E experts, P = 2T pair slots.
#include "core/moe/noise.h"
#include "core/moe/selection.h"

namespace moelab {
namespace {

enum class SecondChoice : std::uint8_t { largest, sampled, sampled_in_training };

}  // namespace

template <>
struct EnumNames<SecondChoice> {
  static constexpr std::array<std::pair<std::string_view, SecondChoice>, 3> value{
      {{"largest", SecondChoice::largest},
       {"sampled", SecondChoice::sampled},
       {"sampled_in_training", SecondChoice::sampled_in_training}}};
};

namespace {

class DeepSpeedTop2 final : public GatedRouter {
 public:
  struct Params : GateParams {
    SecondChoice second_choice = SecondChoice::sampled;
    bool normalize = true;
    void describe(ParamVisitor& v) {
      GateParams::describe(v);
      v("second_choice", second_choice,
        "the second expert has the largest logit of the others; with Gumbel noise on the logits "
        "always (DeepSpeed's default), or while training");
      v("normalize", normalize,
        "divide both scores by their sum; false: raw probabilities, for droppers with renormalize");
    }
    Router::Traits traits() const {
      Router::Traits traits = GateParams::traits();
      traits.k = 2;
      traits.stochastic = traits.stochastic || second_choice != SecondChoice::largest;
      if (second_choice == SecondChoice::sampled_in_training)
        traits.train_inference_gap.emplace_back("the second expert is sampled in training only");
      return traits;
    }
    std::string formula() const {
      const char* noise = second_choice == SecondChoice::largest ? ""
                          : second_choice == SecondChoice::sampled
                              ? " + Gumbel noise"
                              : " + Gumbel noise (in training)";
      return str(
          "logits l = ", logits_text(),
          ", scores s = softmax(l) over all experts; choose the largest l + "
          "choice bias (if a balancer gives one), then the largest of the others' l + choice "
          "bias",
          noise, ", ties to the lower id; weights ", normalize ? "s_i / (s_1 + s_2)" : "s_i");
    }
  };
  DeepSpeedTop2(const Params& params, const Context& context)
      : GatedRouter(params, context),
        second_(params.second_choice),
        noise_{NoiseKind::gumbel, "router/gumbel", context.name + ".gumbel", context.experts} {
    rule_.k = 2;
    rule_.weights = params.normalize ? WeightRule::softmax_chosen : WeightRule::softmax_all;
  }

  Routing route(Tape& tape, const RouterInput& input) override {
    const Variable l_TE = logits(tape, input);
    if (second_ == SecondChoice::largest ||
        (second_ == SecondChoice::sampled_in_training && input.moment.phase != Phase::train))
      return route_top_k(tape, input, l_TE, rule_, input.bias_E);
    const std::vector<std::int32_t> ids = sampled(tape.backend(), l_TE.value, input);
    return route_top_k(tape, input, l_TE, rule_, input.bias_E, &ids);
  }

 private:
  std::vector<std::int32_t> sampled(const Backend& backend, const Tensor& l_TE,
                                    const RouterInput& input) const {
    const Tensor noise_TE =
        token_noise(backend, noise_, input.tokens, input.moment, input.layer, input.noise);
    const auto first = best_expert(l_TE, {}, input.bias_E, input.tokens.valid_T);
    const auto second = best_expert(l_TE, noise_TE, input.bias_E, input.tokens.valid_T, &first);
    std::vector<std::int32_t> ids;
    for (std::size_t t = 0; t < first.size(); ++t) ids.insert(ids.end(), {first[t], second[t]});
    return ids;
  }

  SecondChoice second_;
  NoiseSpec noise_;
  RouterRule rule_;
};

const Register<Router, DeepSpeedTop2> registered{"deepspeed_top2",
                                                 "top-2 by softmax, the second expert sampled"};

}  // namespace
}  // namespace moelab
