#include "core/autograd/functions.h"
#include "core/lab/op_case.h"

namespace moelab {
namespace {

const RegisterOpCase registered{
    "rms_norm", [](OpSize size) {
      const bool small = size == OpSize::small;
      const Index rows = small ? 11 : 4096, width = small ? 37 : 256;
      const auto n = static_cast<double>(rows * width);
      OpInstance c;
      c.inputs = {OpInput::real({rows, width}), OpInput::real({width}, 0.5, 1.5)};
      c.build = [](Tape& t, const std::vector<Variable>& in) {
        return std::vector<Variable>{rms_norm(t, in[0], in[1], 1e-6)};
      };
      c.forward = {.flops = 4 * n, .bytes = 8 * n};
      c.backward = {.flops = 11 * n, .bytes = 20 * n};
      c.saved_elements = rows;
      return c;
    }};

}  // namespace
}  // namespace moelab
