// Dropper probs: a full expert keeps the pairs of largest combine weight, ties to the lower global
// token id (Megatron Core's policy "probs").
#include "core/moe/capacity.h"

namespace moelab {
namespace {

class KeepLargest final : public CapacityDropper {
 public:
  struct Params : CapacityParams {
    std::string formula() const {
      return CapacityParams::formula("the pairs of largest combine weight (ties: earlier token)");
    }
  };
  KeepLargest(const Params& params, const Context& context) : CapacityDropper(params, context) {}

 private:
  void limit(RoutingPlan& plan, const Tensor& weight_P, const DropInput& input,
             const ScopeMap& scope, const std::vector<Index>& capacity) const override {
    dispatch_real(weight_P.dtype(), "dropper probs", [&](auto zero) {
      const auto* weight = weight_P.data<decltype(zero)>();
      keep_first(plan, input.tokens, scope, capacity, [=](Index, Index p) {
        return PairPriority{.score = static_cast<double>(weight[p])};
      });
    });
  }
};

const Register<Dropper, KeepLargest> registered{"probs",
                                                "full experts keep the pairs of largest weight"};

}  // namespace
}  // namespace moelab
