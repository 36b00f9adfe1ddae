#include "core/autograd/functions.h"
#include "core/lab/op_case.h"

namespace moelab {
namespace {

OpInstance instance(OpSize size, const char* name) {
  const std::shared_ptr<const Activation> activation = Component<Activation>{name}.make({});
  const bool small = size == OpSize::small;
  const Index rows = small ? 7 : 4096, width = small ? 19 : 256;
  const Index columns = activation->gated() ? 2 * width : width;
  OpInstance c;
  c.inputs = {OpInput::real({rows, columns}, -5, 5)};
  c.build = [activation](Tape& t, const std::vector<Variable>& in) {
    return std::vector<Variable>{activate(t, *activation, in[0])};
  };
  c.forward.bytes = 4.0 * static_cast<double>(rows * (columns + width));
  c.backward.bytes = 4.0 * static_cast<double>(rows * (2 * columns + width));
  c.saved_elements = 0;
  return c;
}

const RegisterOpCase swiglu{"activate_swiglu",
                            [](OpSize size) { return instance(size, "swiglu"); }};
const RegisterOpCase geglu{"activate_geglu", [](OpSize size) { return instance(size, "geglu"); }};
const RegisterOpCase silu{"activate_silu", [](OpSize size) { return instance(size, "silu"); }};
const RegisterOpCase gelu{"activate_gelu", [](OpSize size) { return instance(size, "gelu"); }};
const RegisterOpCase relu2{"activate_relu2", [](OpSize size) { return instance(size, "relu2"); }};
const RegisterOpCase reglu{"activate_reglu", [](OpSize size) { return instance(size, "reglu"); }};
const RegisterOpCase clamped{"activate_clamped_swiglu",
                             [](OpSize size) { return instance(size, "clamped_swiglu"); }};
const RegisterOpCase relu{"activate_relu", [](OpSize size) { return instance(size, "relu"); }};

}  // namespace
}  // namespace moelab
