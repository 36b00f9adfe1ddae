// Order statistics of columns over all ranks. T tokens, E experts, G scope instances.
#pragma once
#include <vector>

#include "core/moe/scope.h"

namespace moelab {

// f64 [G, E]: of each column's values over the valid tokens of an instance, the one that rank_G[g]
// others stand above; between two of them if the rank is no whole number, and the least if there
// are not so many. values_TE f64; NaN counts as −∞. Exact: the same bits on every layout.
// Collective when instances span ranks, with ten small exchanges.
Tensor column_at_rank(const Tensor& values_TE, const std::vector<double>& rank_G,
                      const ScopeMap& scope, const Tokens& tokens);

}  // namespace moelab
