// Softmax scores (Shazeer et al. 2017; GShard, Lepikhin et al. 2020; Mixtral, Jiang et al. 2024).
#include "core/moe/selection.h"

namespace moelab {
namespace {

class Softmax final : public TopKRouter {
 public:
  struct Params : SelectionParams, NormalizeParams {
    bool score_first = false;
    Params() { normalize = false; }
    void describe(ParamVisitor& v) {
      SelectionParams::describe(v);
      v("score_first", score_first,
        "softmax over all experts before the top-k; else over the chosen logits after it");
      NormalizeParams::describe(
          v, "with score_first: divide the chosen scores by their sum (unless k = 1)");
    }
    void check(const Router::Facts& facts, Checker& checker) const {
      SelectionParams::check(facts, checker);
      NormalizeParams::check(checker);
      if (normalize && !score_first)
        checker.error("normalize", "has no effect: a softmax over the chosen logits sums to 1; ",
                      "remove it or set score_first = true");
      if (k == 1 && !score_first)
        checker.warning("k", "makes every combine weight ", exact(scaling),
                        ", so that only balancing losses train the router; set score_first = true");
    }
    RouterRule rule() const {
      RouterRule rule = SelectionParams::rule();
      rule.score = ScoreKind::softmax;
      rule.key_is_logit = !score_first;
      put(rule, WeightRule::softmax_all);
      if (!score_first) rule.weights = WeightRule::softmax_chosen;
      return rule;
    }
    std::string formula() const {
      if (!score_first)
        return str("logits l = ", logits_text(), "; choose ", selection_text("l"),
                   "; weights w_i = exp(l_i) / sum over chosen exp(l_j)", scaling_text());
      return str("scores s = softmax(", logits_text(), ") over all experts; choose ",
                 selection_text("s"), "; weights w_i = s_i", text(k), scaling_text());
    }
  };
  Softmax(const Params& params, const Context& context)
      : TopKRouter(params, params.rule(), context) {}
};

const Register<Router, Softmax> registered{"softmax", "top-k by softmax scores"};

}  // namespace
}  // namespace moelab
