// Routing from outside, before a router is forced to it. T tokens, P pair slots, E experts.
#pragma once
#include <span>
#include <string>

#include "core/moe/router.h"

namespace moelab {

// What is wrong with it, with place and value; "" if nothing: T + 1 offsets that ascend from 0 to
// P, experts in [−1, E), none twice for a token, none for padding.
std::string routing_problem(const ForcedRouting& forced, Index experts,
                            std::span<const std::uint8_t> valid_T);

// The same against a router that chooses k experts a token (0: any number). Throws Error(data).
void check_forced(const ForcedRouting& forced, Index experts, Index k, const Tokens& tokens,
                  Index layer);

// How far routing that was forced is from the router's own choice.
struct ForcedDifference {
  Index pairs = 0;   // forced
  Index others = 0;  // of these, not among the token's own choices
};
ForcedDifference forced_difference(const RoutingPlan& forced, const RoutingPlan& own);

}  // namespace moelab
