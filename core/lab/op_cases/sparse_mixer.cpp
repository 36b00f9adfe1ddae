#include "core/autograd/functions.h"
#include "core/lab/op_case.h"

namespace moelab {
namespace {

// Inputs: logits, valid mask. Without noise: with it, backward estimates instead of
// differentiating.
const RegisterOpCase registered{
    "sparse_mixer", [](OpSize size) {
      const bool small = size == OpSize::small;
      const Index tokens = small ? 13 : 8192, experts = small ? 7 : 16;
      const auto n = static_cast<double>(tokens * experts);
      OpInstance c;
      c.inputs = {OpInput::real({tokens, experts}, -3, 3),
                  OpInput::integers(DType::u8, {tokens}, 0, 1)};
      c.build = [](Tape& t, const std::vector<Variable>& in) {
        const SparseMixerRule rule{.k = 2, .epsilon = 0.3, .scaling = 1.5};
        SparseMixerInput input;
        input.valid_T = in[1].value;
        return std::vector<Variable>{
            sparse_mixer(t, in[0], rule, input, in[0].value.dtype()).weight_P};
      };
      c.forward = {.flops = 60 * n, .bytes = 4 * n};
      c.backward = {.flops = 80 * n, .bytes = 12 * n};
      return c;
    }};

}  // namespace
}  // namespace moelab
