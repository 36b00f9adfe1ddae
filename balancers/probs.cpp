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
  void limit(RoutingPlan& plan, const Tensor& weight_P, const Tokens& tokens, const ScopeMap& scope,
             const std::vector<Index>& capacity) const override {
    Candidates candidates;
    std::vector<std::size_t> pair_of;
    dispatch_real(weight_P.dtype(), "dropper probs", [&](auto zero) {
      const auto* weight = weight_P.data<decltype(zero)>();
      for (Index t = 0; t < plan.tokens; ++t)
        for (Index p = plan.begin(t); p < plan.end(t); ++p) {
          const auto at = static_cast<std::size_t>(p);
          if (plan.fate_P[at] != PairFate::kept) continue;
          candidates.token.push_back(t);
          candidates.expert.push_back(plan.expert_P[at]);
          candidates.score.push_back(static_cast<double>(weight[p]));
          pair_of.push_back(at);
        }
    });
    const auto keep = select_top_c(candidates, capacity, plan.experts, scope, tokens);
    for (std::size_t i = 0; i < keep.size(); ++i)
      if (keep[i] == 0) plan.fate_P[pair_of[i]] = PairFate::capacity;
  }
};

const Register<Dropper, KeepLargest> registered{"probs",
                                                "full experts keep the pairs of largest weight"};

}  // namespace
}  // namespace moelab
