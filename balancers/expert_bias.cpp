// Balance without a loss: a bias on the selection key moves by a fixed step after each optimizer
// step, up for experts below the mean load, down for those above; combine weights never see it
// (Wang et al. 2024, "Auxiliary-loss-free load balancing"; DeepSeek-V3).
#include <numeric>

#include "core/moe/balancer.h"

namespace moelab {
namespace {

enum class CountWhen : std::uint8_t { before_drop, after_drop };

}  // namespace

template <>
struct EnumNames<CountWhen> {
  static constexpr std::array<std::pair<std::string_view, CountWhen>, 2> value{
      {{"before_drop", CountWhen::before_drop}, {"after_drop", CountWhen::after_drop}}};
};

namespace {

class ExpertBias final : public Balancer {
 public:
  struct Params {
    double update_rate = 1e-3;
    CountWhen count = CountWhen::before_drop;
    void describe(ParamVisitor& v) {
      v("update_rate", update_rate, "how far a bias moves in a step", greater_than(0));
      v("count", count, "rows that make an expert's load: those routed to it, or those it kept");
    }
    Balancer::Traits traits() const { return {.has_bias = true, .scope = std::nullopt}; }
    std::string formula() const {
      return str("after each step bias_i += ", exact(update_rate),
                 " * sign(mean load - load_i), loads counted ",
                 count == CountWhen::before_drop ? "before" : "after",
                 " dropping over the whole step; the bias is added for choosing experts only");
    }
  };
  ExpertBias(const Params& params, const Context& context)
      : params_(params),
        bias_E_(context.state.get(context.backend, "balancers." + context.label + ".bias",
                                  context.dtype, {context.experts})) {}

  Tensor bias() const override { return bias_E_; }

  void after_step(const StepLoad& load) override {
    const auto& load_E = params_.count == CountWhen::before_drop ? load.routed_E : load.kept_E;
    const Index total = std::accumulate(load_E.begin(), load_E.end(), Index{0});
    const auto experts = static_cast<Index>(load_E.size());
    dispatch_real(bias_E_.dtype(), "expert_bias", [&](auto zero) {
      using T = decltype(zero);
      const auto bias = bias_E_.span<T>();
      for (std::size_t e = 0; e < load_E.size(); ++e) {
        const Index above = experts * load_E[e] - total;  // exact: load against the mean
        const int sign = above < 0 ? 1 : above > 0 ? -1 : 0;
        bias[e] += static_cast<T>(sign * params_.update_rate);
      }
    });
  }

 private:
  Params params_;
  Tensor& bias_E_;  // lives in the state store
};

const Register<Balancer, ExpertBias> registered{
    "expert_bias", "choice-only bias that follows the load, without a loss"};

}  // namespace
}  // namespace moelab
