#include "core/moe/switch_loss.h"

namespace moelab {
namespace {

class AuxLoss final : public SwitchLoss {
 public:
  struct Params : SwitchLossParams {
    ScopeParams scope;
    void describe(ParamVisitor& v) {
      SwitchLossParams::describe(v);
      scope.describe(v);
    }
    void check(const Balancer::Facts& facts, Checker& checker) const {
      SwitchLossParams::check(facts, checker);
      scope.check(facts.rows_per_micro_batch, checker);
    }
    Balancer::Traits traits() const { return {.has_loss = true, .scope = scope.spec()}; }
    std::string formula() const { return SwitchLossParams::formula(scope.text()); }
  };
  AuxLoss(const Params& params, const Context& context)
      : SwitchLoss(params, params.scope.spec(), context) {}
};

const Register<Balancer, AuxLoss> registered{
    "aux_loss", "load-balancing loss of Switch Transformers over a chosen scope"};

}  // namespace
}  // namespace moelab
