// Balancing losses that are no sum over tokens: a function of how much each expert got in all. The
// sums go over all ranks that share an instance; each rank backs its own part of the gradient.
// N values, E experts, G scope instances.
#pragma once
#include <functional>
#include <span>
#include <vector>

#include "core/moe/balancer.h"

namespace moelab {

// V of one instance, as a function of its sums S_E over `valid` tokens (more than none).
//   slope_E  dV/dS_e
//   share_E  a_e with Σ a_e · S_e = V: each rank counts its own part of the value by them.
using ColumnFunction = std::function<void(std::span<const double> sum_E, Index valid,
                                          std::span<double> share_E, std::span<double> slope_E)>;

// Σ over instances of V / instances of the step, this rank's part: [1]. values: any shape, N of
// them; cell_N: where each is added, instance · experts + expert, −1 nowhere. Collective when
// instances span ranks.
Variable column_loss(Tape& tape, const Variable& values, std::vector<std::int32_t> cell_N,
                     Index experts, const ScopeMap& scope, Index instances_in_step,
                     const ColumnFunction& function);

// The cells of a table [T, E], padding left out, and of the pair slots, absent ones left out.
std::vector<std::int32_t> table_cells(const ScopeMap& scope, const Tokens& tokens, Index experts);
std::vector<std::int32_t> pair_cells(const ScopeMap& scope, const RoutingPlan& plan);

// V = Var(S) / mean(S)², the squared coefficient of variation (Shazeer et al. 2017, eq. 7); 0 when
// every expert gets the same, and where nothing was given.
void squared_variation(std::span<const double> sum_E, Index valid, std::span<double> share_E,
                       std::span<double> slope_E);

// y with another value: its gradient stays. For sums whose slope is not their value.
Variable with_value(Tape& tape, const Variable& y, double value);

}  // namespace moelab
