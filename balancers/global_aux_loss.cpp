// f from everything this step has routed so far, over all ranks and micro-batches; P from the
// current micro-batch (Qiu et al. 2025, "Demons in the Detail"; Megatron Core's global_aux_loss).
#include <numeric>

#include "core/autograd/functions.h"
#include "core/moe/switch_loss.h"

namespace moelab {
namespace {

class GlobalAuxLoss final : public Balancer {
 public:
  static constexpr ScopeSpec kScope{ScopeKind::batch, 0};
  struct Params : SwitchLossParams {
    Balancer::Traits traits() const { return {.has_loss = true, .scope = kScope}; }
    std::string formula() const {
      return SwitchLossParams::formula(
          "the micro-batch over all ranks for P, of the step's micro-batches so far for f");
    }
  };
  GlobalAuxLoss(const Params& params, const Context& context)
      : params_(params), k_(context.k), label_(context.label) {}

  std::optional<LossTerm> loss(Tape& tape, const BalancerInput& input) override {
    const SwitchShare share = tape.remember([&] {
      const ScopeMap& scope = input.scope(kScope);
      const Tensor now =
          count_choices(tape.backend(), input.routing, input.tokens, k_, params_.counts, scope);
      const Tensor& so_far =
          input.step_state.get(tape.backend(), "counts", DType::i64, now.shape());
      for (Index i = 0; i < now.numel(); ++i)
        so_far.data<std::int64_t>()[i] += now.data<std::int64_t>()[i];
      return switch_share(tape.backend(), so_far, scope, input.tokens,
                          input.instances_in_step(kScope));
    });
    LossTerm term;
    term.name = label_;
    term.layer = input.layer;
    term.value =
        weighted_score_sum(tape, input.routing.scores_TE, share.coefficient_GE, share.instance_T);
    term.coefficient = params_.coefficient;
    term.replicated = false;
    return term;
  }

 private:
  Params params_;
  Index k_ = 0;
  std::string label_;
};

const Register<Balancer, GlobalAuxLoss> registered{
    "global_aux_loss", "load-balancing loss against the counts of the whole step so far"};

}  // namespace
}  // namespace moelab
