#include "core/autograd/functions.h"
#include "core/lab/op_case.h"

namespace moelab {
namespace {

// Backward takes the logits' storage, so they come from an op and not from the inputs; `shared`
// uses them twice, so that one of the two gradients has to be added.
OpInstance instance(OpSize size, bool shared) {
  const bool small = size == OpSize::small;
  const Index rows = small ? 9 : 4096, vocabulary = small ? 21 : 256;
  const auto n = static_cast<double>(rows * vocabulary);
  OpInstance c;
  c.inputs = {OpInput::real({rows, vocabulary}, -3, 3),
              OpInput::integers(DType::i32, {rows}, -1, static_cast<double>(vocabulary - 1)),
              OpInput::integers(DType::i32, {rows}, -1, static_cast<double>(vocabulary - 1))};
  c.build = [shared](Tape& t, const std::vector<Variable>& in) {
    const Variable logits = scale(t, in[0], 1.0);
    if (!shared) return std::vector<Variable>{cross_entropy_sum(t, logits, in[1].value)};
    const Variable first = cross_entropy_sum(t, logits, in[1].value);
    const Variable second = cross_entropy_sum(t, scale(t, logits, 1.0), in[2].value);
    return std::vector<Variable>{first, second};  // backward meets `second` first
  };
  c.forward = {.flops = 4 * n, .bytes = 4 * n};
  c.backward = {.flops = 4 * n, .bytes = 8 * n};
  if (!shared) c.saved_elements = rows * vocabulary + rows;
  return c;
}

const RegisterOpCase plain{"cross_entropy", [](OpSize size) { return instance(size, false); }};
const RegisterOpCase twice{"cross_entropy_added", [](OpSize size) { return instance(size, true); }};

}  // namespace
}  // namespace moelab
