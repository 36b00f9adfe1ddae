#include "core/autograd/functions.h"
#include "core/lab/op_case.h"

namespace moelab {
namespace {

// T tokens, H hidden, E experts.
OpInstance instance(OpSize size, bool wide) {
  const bool small = size == OpSize::small;
  const Index tokens = small ? 11 : 4096, hidden = small ? 9 : 512, experts = small ? 5 : 64;
  OpInstance c;
  c.inputs = {OpInput::real({tokens, hidden}), OpInput::real({experts, hidden}),
              OpInput::real({experts})};
  c.build = [wide](Tape& t, const std::vector<Variable>& in) {
    const DType compute = wide ? DType::f64 : in[0].value.dtype();
    return std::vector<Variable>{gating(t, in[0], in[1], &in[2], compute)};
  };
  const auto product = static_cast<double>(tokens * hidden * experts);
  const auto elements = static_cast<double>(tokens * (hidden + experts) + hidden * experts);
  c.forward = {.flops = 2 * product, .bytes = 4 * elements};
  c.backward = {.flops = 4 * product, .bytes = 8 * elements};
  c.saved_elements = 0;
  return c;
}

const RegisterOpCase plain{"gating", [](OpSize size) { return instance(size, false); }};
const RegisterOpCase wide{"gating_f64", [](OpSize size) { return instance(size, true); }};

}  // namespace
}  // namespace moelab
