// Scores √softplus, unbounded above (an option of Megatron Core).
#include "core/moe/selection.h"

namespace moelab {
namespace {

class SqrtSoftplus final : public TopKRouter {
 public:
  struct Params : SelectionParams {
    bool normalize = true;
    void describe(ParamVisitor& v) {
      SelectionParams::describe(v);
      v("normalize", normalize, "divide the chosen scores by their sum (unless k = 1)");
    }
    RouterRule rule() const {
      RouterRule rule = SelectionParams::rule();
      rule.score = ScoreKind::sqrtsoftplus;
      rule.key_is_logit = false;
      rule.weights = normalize ? WeightRule::normalized : WeightRule::raw;
      return rule;
    }
    std::string formula() const {
      return str("scores s = sqrt(log(1 + exp(W x))); choose ", selection_text("s"),
                 "; weights w_i = s_i",
                 normalize && k > 1 ? " / (sum over chosen s_j + 1e-20)" : "", scaling_text());
    }
  };
  SqrtSoftplus(const Params& params, const Context& context)
      : TopKRouter(params, params.rule(), context) {}
};

const Register<Router, SqrtSoftplus> registered{"sqrtsoftplus",
                                                "top-k by scores sqrt(softplus(logit))"};

}  // namespace
}  // namespace moelab
