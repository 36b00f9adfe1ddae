// What a feed-forward layer, or a part of it, holds and does, counted from its parameters alone.
#pragma once
#include "core/base/rng.h"

namespace moelab {

struct LayerCost {
  Index parameters = 0;         // over all ranks
  Index expert_parameters = 0;  // of these, spread over the ranks of an expert-parallel group
  double active = 0;            // that one token meets, in the mean
  double multiplied = 0;        // that multiply a token: two operations each
  double saved = 0;             // elements kept for backward, a token

  LayerCost& operator+=(const LayerCost& other) {
    parameters += other.parameters;
    expert_parameters += other.expert_parameters;
    active += other.active;
    multiplied += other.multiplied;
    saved += other.saved;
    return *this;
  }
  // Parameters that every token meets and every rank holds, `multiplying` of them in products.
  static LayerCost dense(Index parameters, Index multiplying, double saved) {
    return {parameters, 0, static_cast<double>(parameters), static_cast<double>(multiplying),
            saved};
  }
};

}  // namespace moelab
