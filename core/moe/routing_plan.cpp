#include "core/moe/routing_plan.h"

#include <algorithm>

#include "core/base/check.h"

namespace moelab {

std::vector<Index> RoutingPlan::offsets() const {
  std::vector<Index> out;
  for (Index t = 0; t <= tokens; ++t) out.push_back(begin(t));
  return out;
}

std::vector<Index> RoutingPlan::counts_before_drop() const {
  std::vector<Index> counts(static_cast<std::size_t>(experts), 0);
  for (const std::int32_t e : expert_P)
    if (e >= 0) ++counts[static_cast<std::size_t>(e)];
  return counts;
}

std::vector<Index> RoutingPlan::counts_kept() const {
  std::vector<Index> counts(static_cast<std::size_t>(experts), 0);
  for (std::size_t p = 0; p < expert_P.size(); ++p)
    if (fate_P[p] == PairFate::kept) ++counts[static_cast<std::size_t>(expert_P[p])];
  return counts;
}

Index RoutingPlan::dropped(PairFate reason) const {
  return std::count(fate_P.begin(), fate_P.end(), reason);
}

void RoutingPlan::validate() const {
  MOELAB_CHECK(tokens >= 0 && experts > 0, "tokens ", tokens, ", experts ", experts);
  MOELAB_CHECK(fate_P.size() == expert_P.size(), "fates ", fate_P.size(), ", pairs ",
               expert_P.size());
  if (uniform_k > 0) {
    MOELAB_CHECK(pairs() == tokens * uniform_k, "pairs ", pairs(), ", tokens ", tokens, ", k ",
                 uniform_k);
  } else {
    MOELAB_CHECK(static_cast<Index>(offset_T1.size()) == tokens + 1, "offsets ", offset_T1.size(),
                 ", tokens ", tokens);
    MOELAB_CHECK(offset_T1.front() == 0 && offset_T1.back() == pairs() &&
                     std::is_sorted(offset_T1.begin(), offset_T1.end()),
                 "offsets do not cut ", pairs(), " pairs");
  }
  MOELAB_CHECK(filler_E.empty() || static_cast<Index>(filler_E.size()) == experts,
               "filler rows for ", filler_E.size(), " of ", experts, " experts");
  for (const Index rows : filler_E) MOELAB_CHECK(rows >= 0, "filler rows ", rows);
  std::vector<Index> last_token(static_cast<std::size_t>(experts), -1);
  for (Index t = 0; t < tokens; ++t)
    for (Index p = begin(t); p < end(t); ++p) {
      const std::int32_t e = expert_P[static_cast<std::size_t>(p)];
      const bool absent = fate_P[static_cast<std::size_t>(p)] == PairFate::absent;
      MOELAB_CHECK(absent == (e < 0), "token ", t, " slot ", p, " names expert ", e,
                   absent ? " but is absent" : " but is not absent");
      if (absent) continue;
      MOELAB_CHECK(e < experts, "token ", t, " chose expert ", e, " of ", experts);
      Index& last = last_token[static_cast<std::size_t>(e)];
      MOELAB_CHECK(last != t, "token ", t, " chose expert ", e, " twice");
      last = t;
    }
}

std::shared_ptr<RoutingPlan> uniform_plan(Index tokens, Index experts, Index k,
                                          std::vector<std::int32_t> expert_P) {
  auto plan = std::make_shared<RoutingPlan>();
  plan->tokens = tokens;
  plan->experts = experts;
  plan->uniform_k = k;
  plan->expert_P = std::move(expert_P);
  plan->fate_P.resize(plan->expert_P.size());
  for (std::size_t p = 0; p < plan->expert_P.size(); ++p)
    plan->fate_P[p] = plan->expert_P[p] < 0 ? PairFate::absent : PairFate::kept;
  return plan;
}

}  // namespace moelab
