// Balance without a loss: a bias on the selection key moves after each optimizer step, up for
// experts below the mean load, down for those above; combine weights never see it (Wang et al.
// 2024, "Auxiliary-loss-free load balancing"; DeepSeek-V3). Rule sign moves by a fixed step,
// proportional by how far the load is off; centred moves keep the biases' sum (torchtitan), others
// drift.
#include <numeric>

#include "core/moe/balancer.h"

namespace moelab {
namespace {

enum class CountWhen : std::uint8_t { before_drop, after_drop };
enum class MoveRule : std::uint8_t { sign, proportional };

}  // namespace

template <>
struct EnumNames<CountWhen> {
  static constexpr std::array<std::pair<std::string_view, CountWhen>, 2> value{
      {{"before_drop", CountWhen::before_drop}, {"after_drop", CountWhen::after_drop}}};
};
template <>
struct EnumNames<MoveRule> {
  static constexpr std::array<std::pair<std::string_view, MoveRule>, 2> value{
      {{"sign", MoveRule::sign}, {"proportional", MoveRule::proportional}}};
};

namespace {

class ExpertBias final : public Balancer {
 public:
  struct Params {
    double update_rate = 1e-3;
    MoveRule rule = MoveRule::sign;
    bool center = false;
    CountWhen count = CountWhen::before_drop;
    void describe(ParamVisitor& v) {
      v("update_rate", update_rate, "how far a bias moves in a step", greater_than(0));
      v("rule", rule,
        "sign: by update_rate, whatever the distance; proportional: by update_rate * (mean load - "
        "load) / mean load");
      v("center", center, "subtract the mean of a step's moves, so that the biases' sum stays");
      v("count", count, "rows that make an expert's load: those routed to it, or those it kept");
    }
    Balancer::Traits traits() const { return {.has_bias = true, .scope = std::nullopt}; }
    std::string formula() const {
      return str(
          "after each step bias_i += ", exact(update_rate), " * ",
          rule == MoveRule::sign ? "sign(mean load - load_i)" : "(mean load - load_i) / mean load",
          center ? " - the mean of these moves" : "", ", loads counted ",
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
    std::vector<double> move_E = moves(load_E);
    if (params_.center) {
      const double mean =
          std::accumulate(move_E.begin(), move_E.end(), 0.0) / static_cast<double>(move_E.size());
      for (double& move : move_E) move -= mean;
    }
    dispatch_real(bias_E_.dtype(), "expert_bias", [&](auto zero) {
      using T = decltype(zero);
      const auto bias = bias_E_.span<T>();
      for (std::size_t e = 0; e < move_E.size(); ++e)
        bias[e] += static_cast<T>(move_E[e] * params_.update_rate);
    });
  }

 private:
  // In units of update_rate. Loads are compared as integers: the mean need not be one.
  std::vector<double> moves(const std::vector<Index>& load_E) const {
    const Index total = std::accumulate(load_E.begin(), load_E.end(), Index{0});
    const auto experts = static_cast<Index>(load_E.size());
    std::vector<double> out;
    for (const Index load : load_E) {
      const Index below = total - experts * load;
      if (params_.rule == MoveRule::sign)
        out.push_back(below > 0 ? 1 : below < 0 ? -1 : 0);
      else
        out.push_back(total > 0 ? static_cast<double>(below) / static_cast<double>(total) : 0);
    }
    return out;
  }

  Params params_;
  Tensor& bias_E_;  // lives in the state store
};

const Register<Balancer, ExpertBias> registered{
    "expert_bias", "choice-only bias that follows the load, without a loss"};

}  // namespace
}  // namespace moelab
