// Experts choose tokens (Zhou et al. 2022, "Mixture-of-Experts with Expert Choice Routing",
// arXiv:2202.09368): every expert takes the same number of tokens, those with its best scores, and
// a token may get none or many. Not causal: who is taken depends on later tokens. T tokens, E
// experts.
#include "core/moe/dropper.h"
#include "core/moe/gate.h"
#include "core/moe/pair_routing.h"

namespace moelab {
namespace {

enum class ExpertScore : std::uint8_t { softmax, sigmoid };

}  // namespace

template <>
struct EnumNames<ExpertScore> {
  static constexpr std::array<std::pair<std::string_view, ExpertScore>, 2> value{
      {{"softmax", ExpertScore::softmax}, {"sigmoid", ExpertScore::sigmoid}}};
};

namespace {

class ExpertChoice final : public GatedRouter {
 public:
  struct Params : GateParams {
    double mean_k = 2.0;
    ExpertScore score = ExpertScore::softmax;
    bool normalize = false;
    double scaling = 1.0;
    ScopeParams scope;
    bool allow_non_causal = false;
    void describe(ParamVisitor& v) {
      v("mean_k", mean_k,
        "experts a token has on average: an expert takes tokens * mean_k / experts",
        greater_than(0));
      v("score", score, "softmax over the experts, or each expert's own sigmoid");
      v("normalize", normalize, "divide a token's weights by their sum");
      v("scaling", scaling, "factor on the combine weights", greater_than(0));
      scope.describe(v);
      v("allow_non_causal", allow_non_causal,
        "evaluate and generate all the same, although a token's experts depend on later tokens");
      GateParams::describe(v);
    }
    void check(const Router::Facts& facts, Checker& checker) const {
      scope.check(facts.rows_per_micro_batch, checker);
      if (mean_k > static_cast<double>(facts.experts))
        checker.error("mean_k", "is more than the layer's ", facts.experts,
                      " experts, so that experts would have to take a token twice");
      if (facts.has_choice_bias)
        checker.error("", "has no place for a choice bias: tokens of one expert compete, whose ",
                      "bias is the same for all; remove the balancer that adds one");
    }
    Router::Traits traits() const {
      Router::Traits traits = GateParams::traits();
      traits.causal = false;
      traits.non_causal_allowed = allow_non_causal;
      traits.variable_k = true;
      traits.mean_k = mean_k;
      traits.scope = scope.spec();
      traits.train_inference_gap.push_back(
          "experts choose among the tokens at hand: all of a batch in training, those of one step "
          "in generation");
      return traits;
    }
    std::string formula() const {
      return str("scores s = ", enum_name(score), "(", logits_text(),
                 "); every expert takes its floor(valid tokens ", "* ", exact(mean_k),
                 " / experts), at least 1, best tokens of ", scope.text(),
                 ", ties to the earlier; weights w_i = s_i",
                 normalize ? " / sum over the token's experts s_j" : "",
                 scaling == 1.0 ? "" : " * " + exact(scaling));
    }
  };
  ExpertChoice(const Params& params, const Context& context)
      : GatedRouter(params, context), params_(params) {}

  Routing route(Tape& tape, const RouterInput& input) override {
    const ScoreKind score =
        params_.score == ExpertScore::softmax ? ScoreKind::softmax : ScoreKind::sigmoid;
    return route_pairs(
        tape, input, logits(tape, input), {score, params_.normalize, params_.scaling},
        [&](const Tensor& scores_TE) { return sorted_pairs(scores_TE, taken(scores_TE, input)); });
  }

 private:
  // Marks what the experts take [T·E].
  std::vector<std::uint8_t> taken(const Tensor& scores_TE, const RouterInput& input) const {
    const ScopeMap& scope = input.scope(params_.scope.spec());
    std::vector<Index> rows_G;
    for (const Index valid : scope.valid())
      rows_G.push_back(valid == 0 ? 0 : whole_share(valid, experts(), params_.mean_k));
    Candidates candidates;
    const auto valid_T = input.tokens.valid_T.span<std::uint8_t>();
    dispatch_real(scores_TE.dtype(), "expert_choice", [&](auto zero) {
      const auto* score = scores_TE.data<decltype(zero)>();
      for (Index t = 0; t < input.tokens.count(); ++t)
        for (Index e = 0; e < experts() && valid_T[static_cast<std::size_t>(t)] != 0; ++e) {
          candidates.token.push_back(t);
          candidates.expert.push_back(static_cast<std::int32_t>(e));
          candidates.score.push_back(static_cast<double>(score[t * experts() + e]));
        }
    });
    const auto keep = select_top_c(candidates, rows_G, experts(), scope, input.tokens);
    std::vector<std::uint8_t> taken(static_cast<std::size_t>(scores_TE.numel()), 0);
    for (std::size_t i = 0; i < keep.size(); ++i)
      taken[static_cast<std::size_t>(candidates.token[i] * experts() + candidates.expert[i])] =
          keep[i];
    return taken;
  }

  Params params_;
};

const Register<Router, ExpertChoice> registered{"expert_choice",
                                                "experts choose tokens; not causal"};

}  // namespace
}  // namespace moelab
