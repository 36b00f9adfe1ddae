#include "core/autograd/functions.h"
#include "core/lab/op_case.h"

namespace moelab {
namespace {

OpInstance instance(OpSize size, bool same) {
  const bool small = size == OpSize::small;
  const Index rows = small ? 5 : 4096, width = small ? 33 : 256;
  const auto n = static_cast<double>(rows * width);
  OpInstance c;
  c.inputs = {OpInput::real({rows, width}), OpInput::real({rows, width})};
  c.build = [same](Tape& t, const std::vector<Variable>& in) {
    if (!same) return std::vector<Variable>{add(t, in[0], in[1])};
    const Variable doubled = add(t, in[0], in[0]);
    return std::vector<Variable>{add(t, doubled, in[1]), add(t, in[1], doubled)};
  };
  c.forward = {.flops = n, .bytes = 12 * n};
  c.backward = {.flops = 0, .bytes = 8 * n};
  c.saved_elements = 0;
  return c;
}

const RegisterOpCase plain{"add", [](OpSize size) { return instance(size, false); }};
const RegisterOpCase reused{"add_reused", [](OpSize size) { return instance(size, true); }};

}  // namespace
}  // namespace moelab
