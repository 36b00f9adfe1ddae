#include "core/moe/switch_loss.h"

namespace moelab {
namespace {

class AuxLoss final : public SwitchLoss {
 public:
  struct Params : ScopedSwitchLossParams {
    std::string formula() const { return SwitchLossParams::formula(scope.text()); }
  };
  AuxLoss(const Params& params, const Context& context)
      : SwitchLoss(params, params.scope.spec(), context) {}
};

const Register<Balancer, AuxLoss> registered{
    "aux_loss", "load-balancing loss of Switch Transformers over a chosen scope"};

}  // namespace
}  // namespace moelab
