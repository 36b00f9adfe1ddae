#include "core/moe/switch_loss.h"

#include <numeric>

#include "core/autograd/functions.h"
#include "core/ops/router_select.k.h"

namespace moelab {
namespace {

// The k best of each valid token's scores; −1 elsewhere.
std::vector<std::int32_t> top_scores(const Tensor& scores_TE, const Tensor& valid_T, Index k) {
  const Index tokens = scores_TE.size(0);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(tokens * k));
  dispatch_real(scores_TE.dtype(), "top_k_rows", [&](auto zero) {
    MOELAB_KERNELS::top_k_rows(tokens, scores_TE.size(1), k, scores_TE.data<decltype(zero)>(),
                               valid_T.data<std::uint8_t>(), ids.data());
  });
  return ids;
}

}  // namespace

SwitchShare switch_share(const Backend& backend, const Tensor& counts_GE, const ScopeMap& scope,
                         const Tokens& tokens, Index instances_in_step, Index layers) {
  const Index experts = counts_GE.size(1);
  SwitchShare share{backend.zeros(DType::f64, {scope.instances(), experts}),
                    scope.instance_of_valid(tokens)};
  for (Index g = 0; g < scope.instances(); ++g) {
    const auto valid = static_cast<double>(scope.valid()[static_cast<std::size_t>(g)]);
    const auto* count = counts_GE.data<std::int64_t>() + g * experts;
    const auto total = static_cast<double>(std::accumulate(count, count + experts, Index{0}));
    if (total == 0 || valid == 0) continue;
    const double factor = static_cast<double>(experts) /
                          (total * valid * static_cast<double>(layers * instances_in_step));
    for (Index e = 0; e < experts; ++e)
      share.coefficient_GE.data<double>()[g * experts + e] = factor * static_cast<double>(count[e]);
  }
  return share;
}

void SwitchLossParams::describe(ParamVisitor& v) {
  v("coefficient", coefficient, "weight of the loss in the objective", at_least(0));
  v("counts", counts,
    "what f counts: scores, the top-k of the scores without bias, groups and dropping; routed, the "
    "router's own choices before dropping; first, each token's first choice only");
}

void SwitchLossParams::check(const Balancer::Facts& facts, Checker& checker) const {
  if (facts.k == 0 && counts == CountSource::scores)
    checker.error("counts", "= \"scores\" takes a fixed number of experts a token, which this ",
                  "layer's router does not have; set counts = \"routed\"");
}

std::string SwitchLossParams::formula(const std::string& where) const {
  return str("L = experts * sum over experts of f_i * P_i, f = share of the choices (",
             enum_name(counts), "), P = mean score, over the valid tokens of ", where,
             "; 1 at perfect balance; objective + ", exact(coefficient), " * L");
}

void ScopedSwitchLossParams::describe(ParamVisitor& v) {
  SwitchLossParams::describe(v);
  scope.describe(v);
}

void ScopedSwitchLossParams::check(const Balancer::Facts& facts, Checker& checker) const {
  SwitchLossParams::check(facts, checker);
  scope.check(facts.rows_per_micro_batch, checker);
}

Tensor count_choices(const Backend& backend, const Routing& routing, const Tokens& tokens, Index k,
                     CountSource source, const ScopeMap& scope) {
  const RoutingPlan& plan = *routing.plan;
  const Tensor counts = backend.zeros(DType::i64, {scope.instances(), plan.experts});
  auto* count = counts.data<std::int64_t>();
  const auto add = [&](Index t, std::int32_t expert) {
    if (expert >= 0) ++count[scope.instance_of(t) * plan.experts + expert];
  };
  if (source == CountSource::scores) {
    MOELAB_CHECK(k > 0, "the top ", k, " scores");
    const auto ids = top_scores(routing.scores_TE.value, tokens.valid_T, k);
    for (std::size_t p = 0; p < ids.size(); ++p) add(static_cast<Index>(p) / k, ids[p]);
  } else {
    for (Index t = 0; t < plan.tokens; ++t)
      for (Index p = plan.begin(t); p < plan.end(t); ++p) {
        if (source == CountSource::first && p > plan.begin(t)) break;
        add(t, plan.expert_P[static_cast<std::size_t>(p)]);
      }
  }
  scope.reduce(counts);
  return counts;
}

std::optional<LossTerm> SwitchLoss::loss(Tape& tape, const BalancerInput& input) {
  const SwitchShare share = tape.remember([&] {
    const ScopeMap& scope = input.scope(scope_);
    const Tensor now_GE =
        count_choices(tape.backend(), input.routing, input.tokens, k_, params_.counts, scope);
    return switch_share(tape.backend(), counts(tape.backend(), now_GE, input), scope, input.tokens,
                        input.instances_in_step(scope_));
  });
  LossTerm term;
  term.name = label_;
  term.layer = input.layer;
  term.value =
      weighted_score_sum(tape, input.routing.scores_TE, share.coefficient_GE, share.instance_T);
  term.coefficient = params_.coefficient;
  term.replicated = false;
  return term;
}

}  // namespace moelab
