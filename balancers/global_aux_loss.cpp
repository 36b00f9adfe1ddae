// f from everything this step has routed so far, over all ranks and micro-batches; P from the
// current micro-batch (Qiu et al. 2025, "Demons in the Detail"; Megatron Core's global_aux_loss).
#include "core/moe/switch_loss.h"

namespace moelab {
namespace {

class GlobalAuxLoss final : public SwitchLoss {
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
      : SwitchLoss(params, kScope, context) {}

 private:
  Tensor counts(const Backend& backend, const Tensor& now_GE, const BalancerInput& input) override {
    const Tensor& so_far_GE = input.step_state.get(backend, "counts", DType::i64, now_GE.shape());
    for (Index i = 0; i < now_GE.numel(); ++i)
      so_far_GE.data<std::int64_t>()[i] += now_GE.data<std::int64_t>()[i];
    return so_far_GE;
  }
};

const Register<Balancer, GlobalAuxLoss> registered{
    "global_aux_loss", "load-balancing loss against the counts of the whole step so far"};

}  // namespace
}  // namespace moelab
