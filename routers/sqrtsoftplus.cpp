// Scores √softplus, unbounded above (an option of Megatron Core).
#include "core/moe/selection.h"

namespace moelab {
namespace {

class SqrtSoftplus final : public TopKRouter {
 public:
  struct Params : OwnScoreParams {
    RouterRule rule() const { return rule_for(ScoreKind::sqrtsoftplus); }
    std::string formula() const { return formula_for("sqrt(log(1 + exp(l)))"); }
  };
  SqrtSoftplus(const Params& params, const Context& context)
      : TopKRouter(params, params.rule(), context) {}
};

const Register<Router, SqrtSoftplus> registered{"sqrtsoftplus",
                                                "top-k by scores sqrt(softplus(logit))"};

}  // namespace
}  // namespace moelab
