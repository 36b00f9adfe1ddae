// What a run will need, from the recipe alone: parameters, arithmetic, memory. Plain counting, no
// tensors are made.
#pragma once
#include "core/train/run_config.h"

namespace moelab {

struct RunCost {
  Index parameters = 0;         // of the whole model
  Index active_parameters = 0;  // that one token meets, in the mean: of each MoE layer, k experts
  Index rank_parameters = 0;    // that one rank holds
  // Floating-point operations per token: two per multiplication of a matrix product, attention at
  // its mean causal context. Training is three forwards, and one more of recomputed blocks.
  double forward_flops = 0, training_flops = 0;
  // Bytes on one rank.
  Index weight_bytes = 0, gradient_bytes = 0, optimizer_bytes = 0;
  Index activation_bytes = 0;  // saved for the backward of one micro-batch: an estimate
  Index checkpoint_bytes = 0;  // of the whole run: weights and optimizer state
};

// REQUIRES: `config` without errors.
RunCost run_cost(const RunConfig& config);

}  // namespace moelab
