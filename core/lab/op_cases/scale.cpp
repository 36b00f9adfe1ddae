#include "core/autograd/functions.h"
#include "core/lab/op_case.h"

namespace moelab {
namespace {

const RegisterOpCase registered{"scale", [](OpSize size) {
                                  const bool small = size == OpSize::small;
                                  const Index rows = small ? 5 : 4096, width = small ? 33 : 256;
                                  const auto n = static_cast<double>(rows * width);
                                  OpInstance c;
                                  c.inputs = {OpInput::real({rows, width})};
                                  c.build = [](Tape& t, const std::vector<Variable>& in) {
                                    return std::vector<Variable>{scale(t, in[0], 0.3)};
                                  };
                                  c.forward = c.backward = {.flops = n, .bytes = 8 * n};
                                  c.saved_elements = 0;
                                  return c;
                                }};

}  // namespace
}  // namespace moelab
