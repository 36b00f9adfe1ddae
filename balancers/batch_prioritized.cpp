// Dropper batch_prioritized: all tokens' first choices before any second one, and within a rank the
// tokens with the largest routing weight first (V-MoE's batch prioritized routing, Riquelme et al.
// 2021). Which tokens lose depends on the whole scope.
#include "core/moe/capacity.h"

namespace moelab {
namespace {

enum class TokenPriority : std::uint8_t { largest, sum };

}  // namespace

template <>
struct EnumNames<TokenPriority> {
  static constexpr std::array<std::pair<std::string_view, TokenPriority>, 2> value{
      {{"largest", TokenPriority::largest}, {"sum", TokenPriority::sum}}};
};

namespace {

class BatchPrioritized final : public CapacityDropper {
 public:
  struct Params : CapacityParams {
    TokenPriority priority = TokenPriority::largest;
    void describe(ParamVisitor& v) {
      CapacityParams::describe(v);
      v("priority", priority, "a token's priority: its largest combine weight, or their sum");
    }
    std::string formula() const {
      return CapacityParams::formula(
          str("first choices before second ones, each by priority (the token's ",
              priority == TokenPriority::largest ? "largest" : "summed",
              " combine weight; ties: earlier token)"));
    }
  };
  BatchPrioritized(const Params& params, const Context& context)
      : CapacityDropper(params, context), priority_(params.priority) {}

 private:
  void limit(RoutingPlan& plan, const Tensor& weight_P, const DropInput& input,
             const ScopeMap& scope, const std::vector<Index>& capacity) const override {
    const std::vector<double> priority_T = priorities(plan, weight_P);
    keep_first(plan, input.tokens, scope, capacity, [&](Index t, Index p) {
      return PairPriority{static_cast<std::int32_t>(p - plan.begin(t)),
                          priority_T[static_cast<std::size_t>(t)]};
    });
  }

  std::vector<double> priorities(const RoutingPlan& plan, const Tensor& weight_P) const {
    std::vector<double> priority_T(static_cast<std::size_t>(plan.tokens), 0.0);
    dispatch_real(weight_P.dtype(), "dropper batch_prioritized", [&](auto zero) {
      const auto* weight = weight_P.data<decltype(zero)>();
      for (Index t = 0; t < plan.tokens; ++t)
        for (Index p = plan.begin(t); p < plan.end(t); ++p) {
          double& priority = priority_T[static_cast<std::size_t>(t)];
          const auto w = static_cast<double>(weight[p]);
          priority = priority_ == TokenPriority::sum ? priority + w : std::max(priority, w);
        }
    });
    return priority_T;
  }

  TokenPriority priority_;
};

const Register<Dropper, BatchPrioritized> registered{
    "batch_prioritized", "full experts keep the tokens of largest routing weight, by choice rank"};

}  // namespace
}  // namespace moelab
