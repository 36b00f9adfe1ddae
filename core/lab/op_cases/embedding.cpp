#include "core/autograd/functions.h"
#include "core/lab/op_case.h"

namespace moelab {
namespace {

const RegisterOpCase registered{
    "embedding", [](OpSize size) {
      const bool small = size == OpSize::small;
      const Index rows = small ? 23 : 8192, vocabulary = small ? 7 : 256, width = small ? 35 : 256;
      const auto n = static_cast<double>(rows * width);
      OpInstance c;
      c.inputs = {OpInput::real({vocabulary, width}),
                  OpInput::integers(DType::i32, {rows}, -1, static_cast<double>(vocabulary - 1))};
      c.build = [](Tape& t, const std::vector<Variable>& in) {
        return std::vector<Variable>{embedding(t, in[0], in[1].value)};
      };
      c.forward = {.flops = 0, .bytes = 8 * n};
      c.backward = {.flops = n, .bytes = 4 * n};
      c.saved_elements = 0;
      return c;
    }};

}  // namespace
}  // namespace moelab
