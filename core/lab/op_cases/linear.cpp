#include "core/autograd/functions.h"
#include "core/lab/op_case.h"

namespace moelab {
namespace {

OpInstance instance(OpSize size, bool bias) {
  const bool small = size == OpSize::small;
  const Index rows = small ? 13 : 2048, in = small ? 7 : 256, out = small ? 19 : 512;
  OpInstance c;
  c.inputs = {OpInput::real({rows, in}), OpInput::real({out, in})};
  if (bias) c.inputs.push_back(OpInput::real({out}));
  c.build = [bias](Tape& t, const std::vector<Variable>& in_) {
    return std::vector<Variable>{linear(t, in_[0], in_[1], bias ? &in_[2] : nullptr)};
  };
  const auto product = static_cast<double>(rows * in * out);
  const auto elements = static_cast<double>(rows * in + out * in + rows * out);
  c.forward = {.flops = 2 * product, .bytes = 4 * elements};
  c.backward = {.flops = 4 * product, .bytes = 8 * elements};
  c.saved_elements = 0;
  return c;
}

const RegisterOpCase plain{"linear", [](OpSize size) { return instance(size, false); }};
const RegisterOpCase biased{"linear_bias", [](OpSize size) { return instance(size, true); }};

}  // namespace
}  // namespace moelab
