// aux_loss with the tokens of all MoE layers as one crowd: an expert number may be crowded in one
// layer and empty in another. What Hugging Face's models compute (load_balancing_loss_func, from
// Mixtral on); theirs is k at perfect balance, ours 1: coefficient = router_aux_loss_coef · k.
#include "core/autograd/functions.h"
#include "core/moe/switch_loss.h"
#include "registry/error.h"

namespace moelab {
namespace {

class PooledAux final : public Balancer {
 public:
  struct Params : ScopedSwitchLossParams {
    Balancer::Traits traits() const {
      Balancer::Traits traits = ScopedSwitchLossParams::traits();
      traits.sums_layers = true;
      return traits;
    }
    std::string formula() const {
      return SwitchLossParams::formula("all MoE layers in " + scope.text());
    }
  };
  PooledAux(const Params& params, const Context& context)
      : params_(params), label_(context.label) {}

  std::optional<LossTerm> pooled_loss(Tape& tape, std::span<const Routing> layers,
                                      const BalancerInput& input) override {
    const ScopeSpec spec = params_.scope.spec();
    const SwitchShare share = tape.remember([&] {
      const ScopeMap& scope = input.scope(spec);
      return switch_share(tape.backend(), counts(tape.backend(), layers, input.tokens, scope),
                          scope, input.tokens, input.instances_in_step(spec),
                          static_cast<Index>(layers.size()));
    });
    LossTerm term;
    term.name = label_;
    for (const Routing& layer : layers) {
      const Variable own =
          weighted_score_sum(tape, layer.scores_TE, share.coefficient_GE, share.instance_T);
      term.value = term.value ? add(tape, term.value, own) : own;
    }
    term.coefficient = params_.coefficient;
    term.replicated = false;
    return term;
  }

 private:
  Tensor counts(const Backend& backend, std::span<const Routing> layers, const Tokens& tokens,
                const ScopeMap& scope) const {
    const Index experts = layers.front().plan->experts;
    const Tensor sum_GE = backend.zeros(DType::i64, {scope.instances(), experts});
    for (const Routing& layer : layers) {
      if (layer.plan->experts != experts)
        throw Error(ExitCode::usage,
                    str("the balancer '", label_, "' pools the MoE layers, but they have ", experts,
                        " and ", layer.plan->experts,
                        " experts; give all of them the same number, or take aux_loss"));
      const Tensor own_GE =
          count_choices(backend, layer, tokens, layer.plan->uniform_k, params_.counts, scope);
      for (Index i = 0; i < sum_GE.numel(); ++i)
        sum_GE.data<std::int64_t>()[i] += own_GE.data<std::int64_t>()[i];
    }
    return sum_GE;
  }

  Params params_;
  std::string label_;
};

const Register<Balancer, PooledAux> registered{
    "pooled_aux", "load-balancing loss over all MoE layers pooled (Hugging Face)"};

}  // namespace
}  // namespace moelab
