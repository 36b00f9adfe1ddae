#include "core/moe/free_expert.h"

#include <algorithm>

#include "core/autograd/functions.h"

namespace moelab {

RoutingPlan network_pairs(const RoutingPlan& plan, Index networks) {
  RoutingPlan out = plan;
  out.experts = networks;
  for (std::size_t p = 0; p < out.expert_P.size(); ++p)
    if (out.expert_P[p] >= networks) {
      out.expert_P[p] = -1;
      out.fate_P[p] = PairFate::absent;
    }
  if (!out.filler_E.empty()) out.filler_E.resize(static_cast<std::size_t>(networks));
  return out;
}

void keep_free_pairs(RoutingPlan& plan, Index networks) {
  for (std::size_t p = 0; p < plan.expert_P.size(); ++p)
    if (plan.expert_P[p] >= networks) plan.fate_P[p] = PairFate::kept;
  if (!plan.filler_E.empty())
    std::fill(plan.filler_E.begin() + networks, plan.filler_E.end(), Index{0});
}

Variable weight_of_experts(Tape& tape, const RoutingPlan& plan, const Variable& weight_P,
                           Index first, Index count) {
  auto offset_T1 = std::make_shared<std::vector<Index>>(plan.offsets());
  auto chosen_P = std::make_shared<std::vector<std::uint8_t>>();
  for (const std::int32_t e : plan.expert_P)
    chosen_P->push_back(e >= first && e < first + count ? 1 : 0);
  return sum_weights(tape, weight_P, std::move(offset_T1), std::move(chosen_P));
}

}  // namespace moelab
