// Causal expert choice ("Expert Threshold Routing", 2026, arXiv 2603.11535): a token goes to every
// expert whose score reaches its threshold, the moving average of the score that fills the expert's
// share of a batch. While warming up, the batch's own such score decides. T tokens, E experts.
#include "core/moe/column_order.h"
#include "core/moe/gate.h"
#include "core/moe/pair_routing.h"

using namespace moelab;

struct Threshold final : GatedRouter {
  struct Params {
    double k = 2, decay = 0.99;
    std::int64_t warmup_steps = 10;
    void describe(ParamVisitor& v) {
      v("k", k, "experts that a token has on average", greater_than(0));
      v("decay", decay, "of the thresholds' moving average", from_below(0, 1));
      v("warmup_steps", warmup_steps, "steps of expert choice at the beginning", at_least(1));
    }
    Traits traits() const { return {.variable_k = true, .mean_k = k, .scope = ScopeSpec{}}; }
    std::string formula() const {
      return str("scores s = sigmoid(W x); choose all i with s_i >= c_i; weights w_i = s_i; c_i = ",
                 "average of expert i's (tokens * ", exact(k), " / experts)-th largest score");
    }
  };
  Threshold(const Params& params, const Context& context)
      : GatedRouter({}, context),
        params_(params),
        c_E_(context.state.get(context.backend, "gate.threshold", DType::f64, {experts()})) {}
  Routing route(Tape& tape, const RouterInput& input) override {
    return route_pairs(tape, input, logits(tape, input), {ScoreKind::sigmoid},
                       [&](const Tensor& scores_TE) { return choose(scores_TE, input); });
  }
  void after_step(const StepLoad&) override {
    for (Index e = 0; own_E_ && e < experts(); ++e) {
      double& c = c_E_.data<double>()[e];
      c += (c == 0 ? 1 : 1 - params_.decay) * (own_E_.data<double>()[e] - c);
    }
  }
  std::shared_ptr<const TokenPairs> choose(const Tensor& scores_TE, const RouterInput& input) {
    const Tensor s_TE = Backend::cpu()->empty(DType::f64, scores_TE.shape());
    dispatch_real(scores_TE.dtype(), "threshold",
                  [&]<class T>(T) { std::ranges::copy(scores_TE.span<T>(), s_TE.data<double>()); });
    Tensor limit_E = c_E_;
    if (input.moment.phase == Phase::train) {
      const double share = params_.k * double(input.scope({}).valid()[0]) / double(experts());
      own_E_ = column_at_rank(s_TE, {std::max(share - 1, 0.0)}, input.scope({}), input.tokens);
      if (input.moment.step < params_.warmup_steps) limit_E = own_E_;
    }
    std::vector<std::uint8_t> taken;  // padding has the score 0
    const auto limit = limit_E.span<double>();
    for (const double s : s_TE.span<double>())
      taken.push_back(s > 0 && s >= limit[taken.size() % limit.size()]);
    return sorted_pairs(scores_TE, taken);
  }
  Params params_;
  Tensor& c_E_;   // lives in the state store
  Tensor own_E_;  // what the latest micro-batch asks for
};

const Register<Router, Threshold> registered{"threshold", "causal expert choice by thresholds"};
