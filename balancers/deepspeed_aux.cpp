// The balancing loss of DeepSpeed's gates (l_aux; Rajbhandari et al. 2022, "DeepSpeed-MoE"):
//   L = E · Σ_i P_i · n_i / (c · tokens),  P_i = mean score, n_i = choices of expert i before
// dropping, c = choices a token. Its top-2 gate counts first choices only (c = 1), as GShard does.
// Tokens that chose nobody stand in both means. T tokens, E experts, G scope instances.
#include <numeric>

#include "core/autograd/functions.h"
#include "core/moe/switch_loss.h"

namespace moelab {
namespace {

enum class Choices : std::uint8_t { by_k, first, all };

}  // namespace

template <>
struct EnumNames<Choices> {
  static constexpr std::array<std::pair<std::string_view, Choices>, 3> value{
      {{"by_k", Choices::by_k}, {"first", Choices::first}, {"all", Choices::all}}};
};

namespace {

class DeepSpeedAux final : public Balancer {
 public:
  struct Params {
    double coefficient = 0.01;
    Choices choices = Choices::by_k;
    ScopeParams scope;
    void describe(ParamVisitor& v) {
      v("coefficient", coefficient, "weight of the loss in the objective", at_least(0));
      v("choices", choices,
        "which choices of a token count: by_k, as DeepSpeed's gates, the first at k = 2 and else "
        "all; first; all");
      scope.describe(v);
    }
    void check(const Balancer::Facts& facts, Checker& checker) const {
      scope.check(facts.rows_per_micro_batch, checker);
    }
    Balancer::Traits traits() const { return {.has_loss = true, .scope = scope.spec()}; }
    std::string formula() const {
      const char* counted = choices == Choices::first ? "first choices"
                            : choices == Choices::all ? "choices"
                                                      : "choices (first ones only at k = 2)";
      return str(
          "L = experts * sum over experts of P_i * n_i / (counted choices a token * tokens), ",
          "n_i = ", counted, " before dropping, P = mean score, over the valid tokens of ",
          scope.text(), "; objective + ", exact(coefficient), " * L");
    }
  };
  DeepSpeedAux(const Params& params, const Context& context)
      : coefficient_(params.coefficient),
        scope_(params.scope.spec()),
        k_(context.k),
        first_(params.choices == Choices::first ||
               (params.choices == Choices::by_k && context.k == 2)),
        label_(context.label) {}

  std::optional<LossTerm> loss(Tape& tape, const BalancerInput& input) override {
    const Tensor coefficient_GE =
        tape.remember([&] { return coefficients(tape.backend(), input); });
    LossTerm term;
    term.name = label_;
    term.layer = input.layer;
    term.value = weighted_score_sum(tape, input.routing.scores_TE, coefficient_GE,
                                    input.scope(scope_).instance_of_valid(input.tokens));
    term.coefficient = coefficient_;
    term.replicated = false;
    return term;
  }

 private:
  Tensor coefficients(const Backend& backend, const BalancerInput& input) const {
    const ScopeMap& scope = input.scope(scope_);
    const Tensor count_GE = count_choices(backend, input.routing, input.tokens, k_,
                                          first_ ? CountSource::first : CountSource::routed, scope);
    const Index experts = count_GE.size(1);
    const Tensor out_GE = backend.zeros(DType::f64, {scope.instances(), experts});
    const auto instances = static_cast<double>(input.instances_in_step(scope_));
    for (Index g = 0; g < scope.instances(); ++g) {
      const auto valid = static_cast<double>(scope.valid()[static_cast<std::size_t>(g)]);
      const auto* count = count_GE.data<std::int64_t>() + g * experts;
      double counted = first_ ? valid : static_cast<double>(k_) * valid;
      if (counted == 0)
        counted = static_cast<double>(std::accumulate(count, count + experts, Index{0}));
      if (counted == 0) continue;
      const double factor = static_cast<double>(experts) / (counted * valid * instances);
      for (Index e = 0; e < experts; ++e)
        out_GE.data<double>()[g * experts + e] = factor * static_cast<double>(count[e]);
    }
    return out_GE;
  }

  double coefficient_;
  ScopeSpec scope_;
  Index k_;
  bool first_;
  std::string label_;
};

const Register<Balancer, DeepSpeedAux> registered{"deepspeed_aux",
                                                  "balancing loss of DeepSpeed's gates"};

}  // namespace
}  // namespace moelab
