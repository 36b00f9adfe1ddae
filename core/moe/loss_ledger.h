// Balancing losses enter the step through an explicit list, never through a hidden scale. The
// step's objective is cross-entropy + Σ coefficient · value, value being the mean over the scope
// instances of the step; every rank's backward gives its local part of that sum's gradient.
#pragma once
#include <string>
#include <vector>

#include "core/autograd/tape.h"

namespace moelab {

struct LossTerm {
  std::string name;  // the balancer's label, "aux_loss"
  Index layer = -1;  // −1: a loss pooled over layers
  Variable
      value;  // [1], this micro-batch's contribution: Σ over its instances / instances of the step
  double coefficient = 0;
  // True: the same value stands on every rank (reduced); false: ranks' values add up.
  bool replicated = true;
};

}  // namespace moelab
