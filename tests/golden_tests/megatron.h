// What the runners of Megatron Core's suites share: its configuration as recipe text.
#pragma once
#include <string>
#include <vector>

#include "tests/golden_tests/values.h"

namespace moelab::test {

// A router from TransformerConfig's names (moe_router_…); absent ones have Megatron's defaults.
std::string megatron_router(const GoldenCase& c);

struct AttachedLoss {
  std::string type;  // of our balancer
  double coefficient = 0;
};
// The losses that a router attaches, in its order: z, aux, sequence, global.
std::vector<AttachedLoss> megatron_losses(const GoldenCase& c);

// What Megatron's sequence loss is as a multiple of ours on one sequence: it divides every
// sequence by the mean valid length.
double sequence_factor(double valid, double mean_valid, Index sequences);

}  // namespace moelab::test
