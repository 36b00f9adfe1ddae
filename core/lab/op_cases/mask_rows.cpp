#include "core/autograd/functions.h"
#include "core/lab/op_case.h"

namespace moelab {
namespace {

const RegisterOpCase registered{
    "mask_rows", [](OpSize size) {
      const bool small = size == OpSize::small;
      const Index rows = small ? 9 : 4096, width = small ? 33 : 256;
      const auto n = static_cast<double>(rows * width);
      OpInstance c;
      c.inputs = {OpInput::real({rows, width}), OpInput::integers(DType::u8, {rows}, 0, 1)};
      c.build = [](Tape& t, const std::vector<Variable>& in) {
        return std::vector<Variable>{mask_rows(t, in[0], in[1].value)};
      };
      c.forward = c.backward = {.flops = 0, .bytes = 8 * n};
      c.saved_elements = 0;
      return c;
    }};

}  // namespace
}  // namespace moelab
