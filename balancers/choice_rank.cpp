// Dropper choice_rank: a full expert takes all tokens' first choices before any second one, each
// rank in global token order (GShard, Lepikhin et al. 2020; DeepSpeed's top-2 gate).
#include "core/moe/capacity.h"

namespace moelab {
namespace {

class KeepFirstChoices final : public CapacityDropper {
 public:
  struct Params : CapacityParams {
    std::string formula() const {
      return CapacityParams::formula("first choices before second ones, each in token order");
    }
  };
  KeepFirstChoices(const Params& params, const Context& context)
      : CapacityDropper(params, context) {}

 private:
  void limit(RoutingPlan& plan, const Tensor&, const DropInput& input, const ScopeMap& scope,
             const std::vector<Index>& capacity) const override {
    keep_first(plan, input.tokens, scope, capacity, [&](Index t, Index p) {
      return PairPriority{.tier = static_cast<std::int32_t>(p - plan.begin(t))};
    });
  }
};

const Register<Dropper, KeepFirstChoices> registered{
    "choice_rank", "full experts keep first choices before second ones"};

}  // namespace
}  // namespace moelab
