// What MoeParams say about a layer: cross-checks, traits and the formula, for the ffn member "moe".
#pragma once
#include <string>

#include "core/moe/ffn.h"

namespace moelab {

// Checks every component of the layer against the run, and the components against each other.
void check_moe(const MoeParams& params, const Ffn::Facts& facts, Checker& checker);
LayerCost moe_cost(const MoeParams& params, Index hidden, Index ep);
Ffn::Traits moe_traits(const MoeParams& params);
std::string moe_formula(const MoeParams& params);  // routing, dropping and combining in words

}  // namespace moelab
