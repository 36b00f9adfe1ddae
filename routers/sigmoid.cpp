// Sigmoid scores, each expert on its own (DeepSeek-V3, 2024; Llama 4 with k = 1).
#include "core/moe/selection.h"

namespace moelab {
namespace {

class Sigmoid final : public TopKRouter {
 public:
  struct Params : OwnScoreParams {
    RouterRule rule() const { return rule_for(ScoreKind::sigmoid); }
    std::string formula() const { return formula_for("1 / (1 + exp(-l))"); }
  };
  Sigmoid(const Params& params, const Context& context)
      : TopKRouter(params, params.rule(), context) {}
};

const Register<Router, Sigmoid> registered{"sigmoid", "top-k by sigmoid scores"};

}  // namespace
}  // namespace moelab
