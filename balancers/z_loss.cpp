// Keeps router logits small: mean of logsumexp² (ST-MoE, Zoph et al. 2022, eq. 5).
#include "core/autograd/functions.h"
#include "core/moe/balancer.h"

namespace moelab {
namespace {

class ZLoss final : public Balancer {
 public:
  struct Params {
    double coefficient = 1e-3;
    ScopeParams scope;
    void describe(ParamVisitor& v) {
      v("coefficient", coefficient, "weight of the loss in the objective", at_least(0));
      scope.describe(v);
    }
    void check(const Balancer::Facts& facts, Checker& checker) const {
      scope.check(facts.rows_per_micro_batch, checker);
    }
    Balancer::Traits traits() const { return {.has_loss = true, .scope = scope.spec()}; }
    std::string formula() const {
      return str("L = mean over the valid tokens of ", scope.text(),
                 " of log(sum over experts exp(logit))^2, at least 0 (logits with sum exp = 1); "
                 "objective + ",
                 exact(coefficient), " * L");
    }
  };
  ZLoss(const Params& params, const Context& context) : params_(params), label_(context.label) {}

  std::optional<LossTerm> loss(Tape& tape, const BalancerInput& input) override {
    const ScopeSpec spec = params_.scope.spec();
    const ScopeMap& scope = input.scope(spec);
    const std::vector<std::int32_t> instance_T = scope.instance_of_valid(input.tokens);
    const Index instances = input.instances_in_step(spec);
    const Tensor weight_T = tape.backend().zeros(DType::f64, {input.tokens.count()});
    const auto weight = weight_T.span<double>();
    for (std::size_t t = 0; t < instance_T.size(); ++t)
      if (instance_T[t] >= 0)
        weight[t] = 1.0 / static_cast<double>(
                              scope.valid()[static_cast<std::size_t>(instance_T[t])] * instances);
    LossTerm term;
    term.name = label_;
    term.layer = input.layer;
    term.value = weighted_lse_square(tape, input.routing.logits_TE, weight_T);
    term.coefficient = params_.coefficient;
    term.replicated = false;
    return term;
  }

 private:
  Params params_;
  std::string label_;
};

const Register<Balancer, ZLoss> registered{"z_loss", "penalty on large router logits"};

}  // namespace
}  // namespace moelab
