// Sigmoid scores, each expert on its own (DeepSeek-V3, 2024; Llama 4 with k = 1).
#include "core/moe/selection.h"

namespace moelab {
namespace {

class Sigmoid final : public TopKRouter {
 public:
  struct Params : SelectionParams {
    bool normalize = true;
    void describe(ParamVisitor& v) {
      SelectionParams::describe(v);
      v("normalize", normalize, "divide the chosen scores by their sum (unless k = 1)");
    }
    RouterRule rule() const {
      RouterRule rule = SelectionParams::rule();
      rule.score = ScoreKind::sigmoid;
      rule.key_is_logit = false;
      rule.weights = normalize ? WeightRule::normalized : WeightRule::raw;
      return rule;
    }
    std::string formula() const {
      return str("scores s = 1 / (1 + exp(-W x)); choose ", selection_text("s"),
                 "; weights w_i = s_i",
                 normalize && k > 1 ? " / (sum over chosen s_j + 1e-20)" : "", scaling_text());
    }
  };
  Sigmoid(const Params& params, const Context& context)
      : TopKRouter(params, params.rule(), context) {}
};

const Register<Router, Sigmoid> registered{"sigmoid", "top-k by sigmoid scores"};

}  // namespace
}  // namespace moelab
