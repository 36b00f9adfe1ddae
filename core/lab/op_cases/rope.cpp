#include "core/autograd/functions.h"
#include "core/lab/op_case.h"

namespace moelab {
namespace {

// `last`: the largest position; beyond the number of tokens the table has a row a token.
OpInstance instance(Index tokens, Index heads, Index head_dim, double last) {
  OpInstance c;
  c.inputs = {OpInput::real({tokens, heads * head_dim}),
              OpInput::integers(DType::i32, {tokens}, 0, last)};
  c.build = [heads](Tape& t, const std::vector<Variable>& in) {
    return std::vector<Variable>{rope(t, in[0], heads, 10000.0, in[1].value)};
  };
  c.forward.bytes = c.backward.bytes = 8.0 * static_cast<double>(tokens * heads * head_dim);
  return c;
}

const RegisterOpCase near{"rope", [](OpSize size) {
                            return size == OpSize::small ? instance(13, 3, 6, 5)
                                                         : instance(4096, 4, 32, 127);
                          }};
const RegisterOpCase far{"rope_far", [](OpSize size) {
                           return size == OpSize::small ? instance(5, 1, 10, 900)
                                                        : instance(1024, 4, 32, 100000);
                         }};

}  // namespace
}  // namespace moelab
