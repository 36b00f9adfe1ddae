#include "core/autograd/functions.h"
#include "core/lab/op_case.h"

namespace moelab {
namespace {

OpInstance instance(OpSize size, bool bias) {
  const bool small = size == OpSize::small;
  const Index rows = small ? 11 : 4096, width = small ? 37 : 256;
  const auto n = static_cast<double>(rows * width);
  OpInstance c;
  c.inputs = {OpInput::real({rows, width}), OpInput::real({width}, 0.5, 1.5)};
  if (bias) c.inputs.push_back(OpInput::real({width}));
  c.build = [bias](Tape& t, const std::vector<Variable>& in) {
    return std::vector<Variable>{layer_norm(t, in[0], in[1], bias ? &in[2] : nullptr, 1e-5)};
  };
  c.forward = {.flops = 8 * n, .bytes = 8 * n};
  c.backward = {.flops = 18 * n, .bytes = 20 * n};
  c.saved_elements = 2 * rows;
  return c;
}

const RegisterOpCase plain{"layer_norm", [](OpSize size) { return instance(size, false); }};
const RegisterOpCase biased{"layer_norm_bias", [](OpSize size) { return instance(size, true); }};

}  // namespace
}  // namespace moelab
