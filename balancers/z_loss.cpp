// Keeps router logits small: mean of logsumexp² (ST-MoE, Zoph et al. 2022, eq. 5).
#include "core/autograd/functions.h"
#include "core/moe/balancer.h"

namespace moelab {
namespace {

class ZLoss final : public Balancer {
 public:
  struct Params {
    double coefficient = 1e-3;
    void describe(ParamVisitor& v) {
      v("coefficient", coefficient, "weight of the loss in the objective", at_least(0));
    }
    Balancer::Traits traits() const { return {.has_loss = true, .scope = std::nullopt}; }
    std::string formula() const {
      return str(
          "L = mean over the step's valid tokens of log(sum over experts exp(logit))^2, at least 0 "
          "(logits with sum exp = 1); objective + ",
          exact(coefficient), " * L");
    }
  };
  ZLoss(const Params& params, const Context& context) : params_(params), label_(context.label) {}

  std::optional<LossTerm> loss(Tape& tape, const BalancerInput& input) override {
    const Tensor weight_T = tape.backend().zeros(DType::f64, {input.tokens.count()});
    const auto valid = input.tokens.valid_T.span<std::uint8_t>();
    const auto weight = weight_T.span<double>();
    for (std::size_t t = 0; t < valid.size(); ++t)
      if (valid[t] != 0) weight[t] = 1.0 / static_cast<double>(input.valid_tokens_in_step);
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
