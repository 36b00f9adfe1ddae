#include "core/autograd/functions.h"
#include "core/lab/op_case.h"

namespace moelab {
namespace {

// Inputs: clean logits, noisy logits, valid, with `own_std` deviations. Half the tokens are
// padding.
OpInstance probability(OpSize size, bool own_std) {
  const Index tokens = size == OpSize::small ? 13 : 8192;
  const Index experts = size == OpSize::small ? 7 : 64;
  OpInstance c;
  c.inputs = {OpInput::real({tokens, experts}), OpInput::real({tokens, experts}),
              OpInput::integers(DType::u8, {tokens}, 0, 1)};
  if (own_std) c.inputs.push_back(OpInput::real({tokens, experts}, 0.5, 1.5));
  c.build = [own_std](Tape& t, const std::vector<Variable>& in) {
    return std::vector<Variable>{
        choice_probability(t, in[0], in[1], own_std ? &in[3] : nullptr, 0.7, 2, in[2].value)};
  };
  const double elements = static_cast<double>(tokens * experts);
  c.forward = {.flops = 40 * elements, .bytes = 12 * elements};
  c.backward = {.flops = 30 * elements, .bytes = 24 * elements};
  return c;
}

const RegisterOpCase own{"choice_probability", [](OpSize size) { return probability(size, true); }};
const RegisterOpCase fixed{"choice_probability_fixed",
                           [](OpSize size) { return probability(size, false); }};

}  // namespace
}  // namespace moelab
