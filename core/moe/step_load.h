// What a layer's components learn of a whole step, once it is over. E experts.
#pragma once
#include <vector>

#include "core/base/rng.h"

namespace moelab {

// Globally summed counts of one layer over a whole step (all micro-batches, all ranks).
struct StepLoad {
  std::vector<Index> routed_E;  // before dropping
  std::vector<Index> kept_E;    // after dropping
  Index valid_tokens = 0;
};

}  // namespace moelab
