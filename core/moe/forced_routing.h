// Routing from outside, before a router is forced to it. T tokens, P pair slots, E experts.
#pragma once
#include <span>
#include <string>

#include "core/moe/router.h"

namespace moelab {

// The pairs of a plan, dropped ones too, to be forced on a router.
ForcedRouting forced_routing(const RoutingPlan& plan);

// What is wrong with it, with place and value; "" if nothing: T + 1 offsets that ascend from 0 to
// P, experts in [−1, E), none twice for a token, none for padding.
std::string routing_problem(const ForcedRouting& forced, Index experts,
                            std::span<const std::uint8_t> valid_T);

// The same against a router that chooses k experts a token (0: any number). Throws Error(data).
void check_forced(const ForcedRouting& forced, Index experts, Index k, const Tokens& tokens,
                  Index layer);

// The experts that are forced on a router of k choices a token, of E. REQUIRES: input.forced is
// checked (above) or made by a test.
const std::vector<std::int32_t>& forced_ids(const RouterInput& input, Index k, Index experts);

// How far routing that was forced is from the router's own choice.
struct ForcedDifference {
  Index pairs = 0;   // forced
  Index others = 0;  // of these, not among the token's own choices
};
ForcedDifference forced_difference(const RoutingPlan& forced, const RoutingPlan& own);

}  // namespace moelab
