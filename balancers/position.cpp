// Dropper position: a full expert keeps its first pairs in global token order (GShard, Lepikhin et
// al. 2020; Megatron Core's policy "position" with the order made exact). Needs no exchange of
// candidates: a scan of counts over the ranks says where each rank starts.
#include "core/moe/capacity.h"

namespace moelab {
namespace {

class KeepFirst final : public CapacityDropper {
 public:
  struct Params : CapacityParams {
    std::string formula() const {
      return CapacityParams::formula("its first pairs in token order");
    }
  };
  KeepFirst(const Params& params, const Context& context)
      : CapacityDropper(params, context), backend_(Backend::cpu()) {}

 private:
  void limit(RoutingPlan& plan, const Tensor&, const DropInput&, const ScopeMap& scope,
             const std::vector<Index>& capacity) const override {
    const Index experts = plan.experts;
    const auto each_kept = [&](const auto& body) {
      for (Index t = 0; t < plan.tokens; ++t)
        for (Index p = plan.begin(t); p < plan.end(t); ++p) {
          PairFate& fate = plan.fate_P[static_cast<std::size_t>(p)];
          if (fate != PairFate::kept) continue;
          const Index instance = scope.instance_of(t);
          body(instance, instance * experts + plan.expert_P[static_cast<std::size_t>(p)], fate);
        }
    };
    const Tensor count = backend_->zeros(DType::i64, {scope.instances(), experts});
    const Tensor before = backend_->zeros(DType::i64, {scope.instances(), experts});
    auto* own = count.data<std::int64_t>();
    each_kept([&](Index, Index column, PairFate&) { ++own[column]; });
    scope.exclusive_prefix(count, before);
    auto* place = before.data<std::int64_t>();
    each_kept([&](Index instance, Index column, PairFate& fate) {
      if (place[column]++ >= capacity[static_cast<std::size_t>(instance)])
        fate = PairFate::capacity;
    });
  }

  std::shared_ptr<Backend> backend_;
};

const Register<Dropper, KeepFirst> registered{"position",
                                              "full experts keep their first pairs in token order"};

}  // namespace
}  // namespace moelab
