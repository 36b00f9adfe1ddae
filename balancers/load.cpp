// Even load, smoothly: the squared coefficient of variation of how many tokens each expert is
// likely to get, were the router's noise drawn anew (Shazeer et al. 2017, eq. 8 to 11). Routers
// without noise are given some for the estimate alone, of deviation 1 / experts (V-MoE, Riquelme et
// al. 2021).
#include "core/autograd/functions.h"
#include "core/moe/column_loss.h"

namespace moelab {
namespace {

class Load final : public Balancer {
 public:
  struct Params {
    double coefficient = 0.1;
    double noise = 0.0;
    ScopeParams scope;
    void describe(ParamVisitor& v) {
      v("coefficient", coefficient, "weight of the loss in the objective", at_least(0));
      v("noise", noise,
        "deviation of the noise on the logits that the estimate supposes where the router draws "
        "none; 0: 1 / experts",
        at_least(0));
      scope.describe(v);
    }
    void check(const Balancer::Facts& facts, Checker& checker) const {
      scope.check(facts.rows_per_micro_batch, checker);
      if (facts.k == 0)
        checker.error("", "needs a router with a fixed number of experts a token; take importance");
      else if (facts.k >= facts.experts)
        checker.error("", "has no effect: every token goes to all ", facts.experts, " experts");
    }
    Balancer::Traits traits() const { return {.has_loss = true, .scope = scope.spec()}; }
    std::string formula() const {
      return str("L = Var(N) / mean(N)^2 over experts, N_i = sum over the valid tokens of ",
                 scope.text(),
                 " of Phi((l_i - k-th largest noisy logit of the others) / sigma_i), sigma the "
                 "router's noise or, without, ",
                 noise > 0 ? exact(noise) : std::string("1 / experts"),
                 "; 0 at perfect balance; objective + ", exact(coefficient), " * L");
    }
  };
  Load(const Params& params, const Context& context)
      : params_(params), k_(context.k), label_(context.label) {}

  std::optional<LossTerm> loss(Tape& tape, const BalancerInput& input) override {
    const ScopeSpec spec = params_.scope.spec();
    const ScopeMap& scope = input.scope(spec);
    const Routing& routing = input.routing;
    const Index experts = routing.plan->experts;
    if (k_ < 1 || k_ >= experts) return {};
    const bool own_noise = static_cast<bool>(routing.noise_std_TE);
    const Variable likely_TE =
        choice_probability(tape, own_noise ? routing.clean_logits_TE : routing.logits_TE,
                           routing.logits_TE, own_noise ? &routing.noise_std_TE : nullptr,
                           params_.noise > 0 ? params_.noise : 1.0 / static_cast<double>(experts),
                           k_, input.tokens.valid_T);
    LossTerm term;
    term.name = label_;
    term.layer = input.layer;
    term.value = column_loss(tape, likely_TE, table_cells(scope, input.tokens, experts), experts,
                             scope, input.instances_in_step(spec), squared_variation);
    term.coefficient = params_.coefficient;
    term.replicated = false;
    return term;
  }

 private:
  Params params_;
  Index k_ = 0;
  std::string label_;
};

const Register<Balancer, Load> registered{
    "load", "squared variation of the experts' likely number of tokens (Shazeer 2017)"};

}  // namespace
}  // namespace moelab
