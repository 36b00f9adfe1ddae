#include "core/autograd/functions.h"
#include "core/lab/op_case.h"

namespace moelab {
namespace {

RegisterOpCase make(const char* name, double most) {
  return {name, [most](OpSize size) {
            const bool small = size == OpSize::small;
            const Index rows = small ? 5 : 8192, width = small ? 33 : 64;
            const auto n = static_cast<double>(rows * width);
            OpInstance c;
            c.inputs = {OpInput::real({rows, width}), OpInput::real({1}, 0.1, 0.5)};
            c.build = [most](Tape& t, const std::vector<Variable>& in) {
              return std::vector<Variable>{scale_exp(t, in[0], in[1], 1.5, most)};
            };
            c.forward = {.flops = n, .bytes = 8 * n};
            c.backward = {.flops = 3 * n, .bytes = 12 * n};
            c.saved_elements = 0;
            return c;
          }};
}

const RegisterOpCase cases[] = {make("scale_exp", 100.0), make("scale_exp_at_its_most", 1.2)};

}  // namespace
}  // namespace moelab
