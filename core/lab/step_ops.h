// The ops of a training step at the shape of a model, one layer of each, for `moelab bench ops
// --shape`: what the step's time is made of, without the step.
#pragma once
#include <string>
#include <vector>

#include "core/lab/op_case.h"

namespace moelab {

struct StepShape {
  std::string name;                     // as given
  Index tokens = 0, length = 0;         // of a micro-batch, of one of its rows
  Index hidden = 0, heads = 0;          // H; heads of width hidden / heads
  Index width = 0, experts = 0, k = 0;  // of the MoE layer
  Index vocabulary = 256;
};
// "quickstart" (the model of recipes/quickstart.toml), or a shape of `bench layer` with rows of 128
// tokens and heads of width 64 where they divide. Throws Error(usage).
StepShape step_shape(const std::string& text);

// Costs are what any implementation has to do: each operand read once, each result written once.
std::vector<OpCase> step_ops(const StepShape& shape);

}  // namespace moelab
