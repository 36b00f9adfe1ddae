#include "core/moe/forced_routing.h"

#include <algorithm>

#include "registry/error.h"

namespace moelab {
namespace {

std::string offset_problem(const std::vector<Index>& offset_T1, std::size_t tokens,
                           std::size_t pairs) {
  if (offset_T1.size() != tokens + 1)
    return str(offset_T1.size(), " offsets for ", tokens, " tokens; there must be one more");
  if (offset_T1.front() != 0 || offset_T1.back() != static_cast<Index>(pairs))
    return str("offsets go from ", offset_T1.front(), " to ", offset_T1.back(),
               "; they must go from 0 to the ", pairs, " pairs");
  for (std::size_t t = 0; t < tokens; ++t)
    if (offset_T1[t + 1] < offset_T1[t])
      return str("token ", t, " has ", offset_T1[t + 1] - offset_T1[t], " pairs");
  return "";
}

}  // namespace

ForcedRouting forced_routing(const RoutingPlan& plan) { return {plan.offsets(), plan.expert_P}; }

std::string routing_problem(const ForcedRouting& forced, Index experts,
                            std::span<const std::uint8_t> valid_T) {
  std::string problem = offset_problem(forced.offset_T1, valid_T.size(), forced.expert_P.size());
  if (!problem.empty()) return problem;
  std::vector<Index> taken_by_E(static_cast<std::size_t>(std::max<Index>(0, experts)), -1);
  for (std::size_t t = 0; t < valid_T.size(); ++t)
    for (Index p = forced.offset_T1[t]; p < forced.offset_T1[t + 1]; ++p) {
      const std::int32_t expert = forced.expert_P[static_cast<std::size_t>(p)];
      if (expert == -1) continue;
      if (expert < -1 || expert >= experts)
        return str("token ", t, " goes to expert ", expert, "; there are experts 0 to ",
                   experts - 1);
      if (valid_T[t] == 0) return str("token ", t, " is padding, but goes to expert ", expert);
      Index& taken_by = taken_by_E[static_cast<std::size_t>(expert)];
      if (taken_by == static_cast<Index>(t))
        return str("token ", t, " goes to expert ", expert, " twice");
      taken_by = static_cast<Index>(t);
    }
  return "";
}

void check_forced(const ForcedRouting& forced, Index experts, Index k, const Tokens& tokens,
                  Index layer) {
  std::string problem = routing_problem(forced, experts, tokens.valid_T.span<std::uint8_t>());
  for (Index t = 0; t < tokens.count() && problem.empty() && k > 0; ++t) {
    const auto at = static_cast<std::size_t>(t);
    if (const Index pairs = forced.offset_T1[at + 1] - forced.offset_T1[at]; pairs != k)
      problem = str("token ", t, " has ", pairs, " pairs; the router chooses ", k, " experts");
  }
  if (!problem.empty())
    throw Error(ExitCode::data, str("cannot force the routing of layer ", layer, ": ", problem));
}

const std::vector<std::int32_t>& forced_ids(const RouterInput& input, Index k, Index experts) {
  const auto& expert_P = input.forced->expert_P;
  const auto pairs = static_cast<Index>(expert_P.size());
  MOELAB_CHECK(pairs == input.tokens.count() * k, "forced routing of ", pairs, " pairs for ",
               input.tokens.count(), " tokens and k ", k);
  for (const std::int32_t e : expert_P)
    MOELAB_CHECK(e >= -1 && e < experts, "forced expert ", e, " of ", experts);
  return expert_P;
}

ForcedDifference forced_difference(const RoutingPlan& forced, const RoutingPlan& own) {
  ForcedDifference out;
  for (Index t = 0; t < forced.tokens; ++t) {
    const auto own_begin = own.expert_P.begin() + own.begin(t);
    const auto own_end = own.expert_P.begin() + own.end(t);
    for (Index p = forced.begin(t); p < forced.end(t); ++p) {
      const std::int32_t expert = forced.expert_P[static_cast<std::size_t>(p)];
      if (expert < 0) continue;
      ++out.pairs;
      out.others += std::find(own_begin, own_end, expert) == own_end ? 1 : 0;
    }
  }
  return out;
}

}  // namespace moelab
