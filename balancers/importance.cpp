// Even importance: the squared coefficient of variation of how much weight each expert gets
// (Shazeer et al. 2017, "Outrageously large neural networks", eq. 6 and 7).
#include "core/moe/column_loss.h"

namespace moelab {
namespace {

enum class ImportanceOf : std::uint8_t { weights, scores };

}  // namespace

template <>
struct EnumNames<ImportanceOf> {
  static constexpr std::array<std::pair<std::string_view, ImportanceOf>, 2> value{
      {{"weights", ImportanceOf::weights}, {"scores", ImportanceOf::scores}}};
};

namespace {

class Importance final : public Balancer {
 public:
  struct Params {
    double coefficient = 0.1;
    ImportanceOf of = ImportanceOf::weights;
    ScopeParams scope;
    void describe(ParamVisitor& v) {
      v("coefficient", coefficient, "weight of the loss in the objective", at_least(0));
      v("of", of,
        "what is added up: the combine weights of the chosen experts before dropping, or the "
        "normalised scores of all experts");
      scope.describe(v);
    }
    void check(const Balancer::Facts& facts, Checker& checker) const {
      scope.check(facts.rows_per_micro_batch, checker);
    }
    Balancer::Traits traits() const { return {.has_loss = true, .scope = scope.spec()}; }
    std::string formula() const {
      return str("L = Var(I) / mean(I)^2 over experts, I_i = sum of the ", enum_name(of),
                 " of expert i over the valid tokens of ", scope.text(),
                 "; 0 at perfect balance; objective + ", exact(coefficient), " * L");
    }
  };
  Importance(const Params& params, const Context& context)
      : params_(params), label_(context.label) {}

  std::optional<LossTerm> loss(Tape& tape, const BalancerInput& input) override {
    const ScopeSpec spec = params_.scope.spec();
    const ScopeMap& scope = input.scope(spec);
    const RoutingPlan& plan = *input.routing.plan;
    const bool weights = params_.of == ImportanceOf::weights;
    LossTerm term;
    term.name = label_;
    term.layer = input.layer;
    term.value = column_loss(
        tape, weights ? input.routing.weight_P : input.routing.scores_TE,
        weights ? pair_cells(scope, plan) : table_cells(scope, input.tokens, plan.experts),
        plan.experts, scope, input.instances_in_step(spec), squared_variation);
    term.coefficient = params_.coefficient;
    term.replicated = false;
    return term;
  }

 private:
  Params params_;
  std::string label_;
};

const Register<Balancer, Importance> registered{
    "importance", "squared variation of the experts' total weight (Shazeer 2017)"};

}  // namespace
}  // namespace moelab
