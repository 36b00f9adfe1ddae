// switch: the routed network in the MLP slot that the first SwitchMLP was (Megatron-LM 2022 and
// Megatron-DeepSpeed, --num-experts-switch): a gate with a bias, softmax over all experts, the best
// one, y = p · expert(x), no capacity and no balancing loss.
// Experts may be spread over ranks, which that generation could not. The second generation
// (Megatron Core 0.5: sinkhorn in training, sigmoid) is kind "moe" with router "sinkhorn" and k =
// 1; the third the same with any k. T tokens, H hidden, E experts.
#include "core/moe/expert_mlp.h"
#include "core/moe/moe_params.h"
#include "core/moe/selection.h"

namespace moelab {
namespace {

class SwitchFfn final : public Ffn {
 public:
  struct Params : MlpParams {
    std::int64_t num_experts = 8;
    Params() {
      activation = Component<Activation>("gelu");
      bias = true;
    }
    void describe(ParamVisitor& v) {
      v("num_experts", num_experts, "experts of the layer, over all ranks", between(1, 1e6));
      MlpParams::describe(v);
    }
    void check(const Facts& facts, Checker& c) const {
      if (facts.ep > 0 && num_experts % facts.ep != 0)
        c.error("num_experts", "must be divisible by parallel.ep = ", facts.ep,
                "; every rank of an expert-parallel group holds as many experts");
    }
    Ffn::Traits traits() const {
      Ffn::Traits traits;
      traits.moe = true;
      traits.experts = num_experts;
      traits.width = width;
      traits.cost = [*this](Index hidden, Index ep) {
        LayerCost expert = mlp_cost(*this, hidden);
        expert.saved += (ep > 1 ? 2 : 1) * static_cast<double>(hidden) + 2;
        expert.parameters = expert.expert_parameters = num_experts * expert.parameters;
        expert += LayerCost::dense(num_experts * (hidden + 1), num_experts * hidden,
                                   2 * static_cast<double>(num_experts));
        return expert;
      };
      return traits;
    }
    std::string formula() const {
      return str("p = softmax(W x + b); e = argmax p, ties to the lower id; y = p_e * ",
                 network_text(), " of expert e");
    }
  };

  SwitchFfn(const Params& params, const Context& context)
      : layer_(context.layer),
        experts_(params.num_experts),
        dp_(context.ranks.dp),
        state_(context.name),
        router_(selection(), rule(),
                {*context.ranks.backend, context.dtype, context.hidden, params.num_experts,
                 context.layer, context.name + ".gate", context.router_init_std, state_}),
        dispatcher_(Component<Dispatcher>("auto").make({context.ranks, params.num_experts})),
        activation_(params.activation.make({})),
        weights_(params, spec(params, context)) {}

  FfnOutput forward(Tape& tape, const FfnInput& input) override {
    if (input.forced) check_forced(*input.forced, experts_, 1, input.tokens, layer_);
    Routing routing = route(tape, input, input.forced);
    const Dispatched sent =
        dispatcher_->dispatch(tape, input.x_TH, *routing.plan, routing.weight_P, input.tokens);
    const Variable y_RH = expert_mlp(tape, sent.rows, sent.weight_R,
                                     weights_.on(tape, *activation_), WeightAt::hidden);
    FfnOutput out;
    out.y_TH = dispatcher_->combine(tape, y_RH, sent);
    if (!tape.replaying()) {
      out.record = make_record(routing, input.tokens, {}, layer_);
      out.record->weight_P = routing.weight_P.value;
      if (input.forced && input.compare_forced) {
        Tape aside(tape.backend(), Tape::Mode::forward);
        out.record->forced = forced_difference(*routing.plan, *route(aside, input, nullptr).plan);
      }
    }
    out.routing = std::make_shared<Routing>(std::move(routing));
    return out;
  }
  void parameters(const std::function<void(Parameter&)>& visit) override {
    router_.parameters(visit);
    weights_.parameters(visit);
  }

 private:
  Routing route(Tape& tape, const FfnInput& input, const ForcedRouting* forced) {
    return router_.route(tape, {input.x_TH,
                                input.tokens,
                                input.moment,
                                layer_,
                                forced,
                                input.noise,
                                {},
                                input.previous_logits_TE,
                                dp_});
  }
  static SelectionParams selection() {
    SelectionParams params;
    params.k = 1;
    params.bias = true;
    return params;
  }
  static RouterRule rule() {
    RouterRule rule = selection().rule();
    rule.score = ScoreKind::softmax;
    rule.key_is_logit = false;
    rule.weights = WeightRule::softmax_all;
    return rule;
  }
  static MlpWeights::Spec spec(const Params& params, const Context& context) {
    const Index ep = context.ranks.ep ? context.ranks.ep->size() : 1;
    const Index at = context.ranks.ep ? context.ranks.ep->rank() : 0;
    return {*context.ranks.backend,       context.dtype,           context.hidden,
            at * params.num_experts / ep, params.num_experts / ep, Placement::expert,
            context.name + ".experts",    context.init_std,        context.output_init_std};
  }

  Index layer_, experts_;
  std::shared_ptr<Group> dp_;
  StateStore state_;
  TopKRouter router_;
  std::unique_ptr<Dispatcher> dispatcher_;
  std::unique_ptr<Activation> activation_;
  MlpWeights weights_;
};

const Register<Ffn, SwitchFfn> registered{
    "switch", "one expert a token by softmax, nothing else: the first SwitchMLP"};

}  // namespace
}  // namespace moelab
