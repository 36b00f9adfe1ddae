// aux_loss with its scope fixed: each sequence balances on its own (DeepSeek-V2, -V3).
#include "core/moe/switch_loss.h"

namespace moelab {
namespace {

class SequenceAuxLoss final : public SwitchLoss {
 public:
  static constexpr ScopeSpec kScope{ScopeKind::sequence, 0};
  struct Params : SwitchLossParams {
    Balancer::Traits traits() const { return {.has_loss = true, .scope = kScope}; }
    std::string formula() const { return SwitchLossParams::formula("each sequence"); }
  };
  SequenceAuxLoss(const Params& params, const Context& context)
      : SwitchLoss(params, kScope, context) {}
};

const Register<Balancer, SequenceAuxLoss> registered{"sequence_aux_loss",
                                                     "aux_loss with scope = \"sequence\""};

}  // namespace
}  // namespace moelab
