// Balanced by construction in training: experts are chosen by Sinkhorn's transport plan between
// tokens and experts, weights come from the scores (Clark et al. 2022, "Unified Scaling Laws for
// Routed Language Models"; Megatron Core). T tokens, E experts, P pairs.
#include "core/moe/sinkhorn.h"

#include "core/moe/selection.h"
#include "core/ops/router_select.k.h"

namespace moelab {
namespace {

enum class SinkhornEval : std::uint8_t { score, plan };
enum class SinkhornScore : std::uint8_t { by_k, softmax, sigmoid };

}  // namespace

template <>
struct EnumNames<SinkhornEval> {
  static constexpr std::array<std::pair<std::string_view, SinkhornEval>, 2> value{
      {{"score", SinkhornEval::score}, {"plan", SinkhornEval::plan}}};
};
template <>
struct EnumNames<SinkhornScore> {
  static constexpr std::array<std::pair<std::string_view, SinkhornScore>, 3> value{
      {{"auto", SinkhornScore::by_k},
       {"softmax", SinkhornScore::softmax},
       {"sigmoid", SinkhornScore::sigmoid}}};
};

namespace {

class SinkhornRouter final : public GatedRouter {
 public:
  struct Params : GateParams {
    std::int64_t k = 2;
    SinkhornScore score = SinkhornScore::by_k;
    double scaling = 1.0;
    ScopeParams scope;
    SinkhornRule iteration;
    SinkhornEval evaluation = SinkhornEval::score;
    bool allow_non_causal = false;
    void describe(ParamVisitor& v) {
      v("k", k, "experts chosen per token", at_least(1));
      v("score", score, "combine weights: softmax, sigmoid; auto: sigmoid at k = 1, else softmax");
      v("scaling", scaling, "factor on the combine weights", greater_than(0));
      scope.describe(v);
      v("tolerance", iteration.tolerance, "the iteration ends when `stop` falls to this",
        greater_than(0));
      v("stop", iteration.stop,
        "column_error: largest relative deviation of an expert's share; factor_change: mean change "
        "of the experts' factors (Megatron Core: with tolerance 1e-4)");
      v("max_iterations", iteration.max_iterations,
        "the iteration ends after so many at the latest", at_least(1));
      v("epsilon", iteration.epsilon, "added to the sums that are divided by (Megatron Core: 1e-8)",
        at_least(0));
      v("evaluation", evaluation,
        "what chooses outside training: the scores (causal), or the plan over the tokens at hand");
      v("allow_non_causal", allow_non_causal,
        "with evaluation = \"plan\": evaluate and generate all the same, although a token's "
        "experts depend on later tokens");
      GateParams::describe(v);
    }
    void check(const Router::Facts& facts, Checker& checker) const {
      scope.check(facts.rows_per_micro_batch, checker);
      if (k > facts.experts)
        checker.error("k", "is more than the layer's ", facts.experts,
                      " experts; lower k or raise num_experts");
      if (facts.has_choice_bias)
        checker.error("", "balances by its plan, which a choice bias would undo; remove the ",
                      "balancer that adds one");
      if (allow_non_causal && evaluation == SinkhornEval::score)
        checker.error("allow_non_causal", "has no effect with evaluation = \"score\", which is ",
                      "causal; remove it");
    }
    Router::Traits traits() const {
      Router::Traits traits = GateParams::traits();
      traits.k = k;
      traits.scope = scope.spec();
      traits.causal = evaluation == SinkhornEval::score;
      traits.non_causal_allowed = allow_non_causal;
      traits.train_inference_gap.push_back(
          traits.causal ? "training chooses by the balanced plan, evaluation and generation by the "
                          "scores"
                        : "the plan balances the tokens at hand: all of a batch in training, those "
                          "of one step in generation");
      return traits;
    }
    RouterRule rule() const {
      RouterRule rule;
      rule.k = k;
      const bool sigmoid =
          score == SinkhornScore::sigmoid || (score == SinkhornScore::by_k && k == 1);
      rule.score = sigmoid ? ScoreKind::sigmoid : ScoreKind::softmax;
      rule.weights = sigmoid ? WeightRule::raw : WeightRule::softmax_all;
      rule.scaling = scaling;
      rule.key_is_logit = true;
      return rule;
    }
    std::string formula() const {
      const bool sigmoid = rule().score == ScoreKind::sigmoid;
      return str("logits l = ", logits_text(), "; in training choose the ", k,
                 " experts with the largest l + log d, d", " from Sinkhorn's iteration over ",
                 scope.text(), ": row sums 1/tokens, column sums 1/experts, at most ",
                 iteration.max_iterations, " iterations; else by l",
                 evaluation == SinkhornEval::plan ? " + log d too" : " alone",
                 "; weights w_i = ", sigmoid ? "sigmoid" : "softmax", "(l)_i",
                 scaling == 1.0 ? "" : " * " + exact(scaling));
    }
  };
  SinkhornRouter(const Params& params, const Context& context)
      : GatedRouter(params, context), params_(params), rule_(params.rule()) {}

  Routing route(Tape& tape, const RouterInput& input) override {
    const Variable logits_TE = logits(tape, input);
    const bool plan =
        input.moment.phase == Phase::train || params_.evaluation == SinkhornEval::plan;
    if (!plan || input.forced) return route_top_k(tape, input, logits_TE, rule_, {});
    const auto ids = tape.remember([&] { return choose(tape.backend(), logits_TE.value, input); });
    return route_top_k(tape, input, logits_TE, rule_, {}, &ids);
  }

 private:
  // A token's best experts by the plan: its own factor does not matter.
  std::vector<std::int32_t> choose(const Backend& backend, const Tensor& logits_TE,
                                   const RouterInput& input) const {
    const ScopeMap& scope = input.scope(params_.scope.spec());
    const SinkhornFactors factors = sinkhorn(logits_TE, params_.iteration, scope, input.tokens);
    const Index tokens = input.tokens.count();
    const Tensor key_TE = backend.empty(DType::f64, logits_TE.shape());
    dispatch_real(logits_TE.dtype(), "sinkhorn", [&](auto zero) {
      const auto* l = logits_TE.data<decltype(zero)>();
      for (Index t = 0; t < tokens; ++t) {
        const double* column = factors.log_column_GE.data() + scope.instance_of(t) * experts();
        for (Index e = 0; e < experts(); ++e)
          key_TE.data<double>()[t * experts() + e] =
              static_cast<double>(l[t * experts() + e]) + column[e];
      }
    });
    std::vector<std::int32_t> ids(static_cast<std::size_t>(tokens * params_.k));
    MOELAB_KERNELS::top_k_rows(tokens, experts(), params_.k, key_TE.data<double>(),
                               input.tokens.valid_T.data<std::uint8_t>(), ids.data());
    return ids;
  }

  Params params_;
  RouterRule rule_;
};

const Register<Router, SinkhornRouter> registered{
    "sinkhorn", "top-k by a transport plan that balances the experts"};

}  // namespace
}  // namespace moelab
