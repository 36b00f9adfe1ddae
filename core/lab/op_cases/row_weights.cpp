#include "core/autograd/functions.h"
#include "core/lab/op_case.h"

namespace moelab {
namespace {

// Every fifth token is padding.
OpInstance from_logits(OpSize size, Index count) {
  const Index tokens = size == OpSize::small ? 23 : 16384;
  OpInstance c;
  c.inputs = {OpInput::real({tokens, count}, -3, 3)};
  c.build = [tokens](Tape& t, const std::vector<Variable>& in) {
    const Tensor valid_T = t.backend().empty(DType::u8, {tokens});
    for (Index i = 0; i < tokens; ++i) valid_T.data<std::uint8_t>()[i] = i % 5 == 3 ? 0 : 1;
    return token_weights(t, in[0], valid_T);
  };
  const auto elements = static_cast<double>(tokens * count);
  c.forward = c.backward = {.flops = 4 * elements, .bytes = 8 * elements};
  return c;
}

OpInstance rows(OpSize size) {
  const Index tokens = size == OpSize::small ? 9 : 4096, width = size == OpSize::small ? 19 : 256;
  OpInstance c;
  c.inputs = {OpInput::real({tokens, width}), OpInput::real({tokens})};
  c.build = [](Tape& t, const std::vector<Variable>& in) {
    return std::vector<Variable>{scale_rows(t, in[0], in[1])};
  };
  const auto elements = static_cast<double>(tokens * width);
  c.forward = {.flops = elements, .bytes = 8 * elements};
  c.backward = {.flops = 3 * elements, .bytes = 16 * elements};
  c.saved_elements = 0;
  return c;
}

// Tokens with 0 to 3 slots.
OpInstance sums(OpSize size) {
  const Index tokens = size == OpSize::small ? 24 : 16384;
  auto offset_T1 = std::make_shared<std::vector<Index>>(std::vector<Index>{0});
  for (Index t = 0; t < tokens; ++t) offset_T1->push_back(offset_T1->back() + t % 4);
  const Index pairs = offset_T1->back();
  auto chosen_P = std::make_shared<std::vector<std::uint8_t>>();
  for (Index p = 0; p < pairs; ++p) chosen_P->push_back(p % 5 < 3 ? 1 : 0);
  OpInstance c;
  c.inputs = {OpInput::real({pairs})};
  c.build = [offset_T1, chosen_P](Tape& t, const std::vector<Variable>& in) {
    return std::vector<Variable>{sum_weights(t, in[0], offset_T1, chosen_P)};
  };
  c.forward =
      c.backward = {.flops = static_cast<double>(pairs), .bytes = 5.0 * static_cast<double>(pairs)};
  c.saved_elements = 0;
  return c;
}

const RegisterOpCase one{"token_weights_sigmoid", [](OpSize size) { return from_logits(size, 1); }};
const RegisterOpCase two{"token_weights_softmax", [](OpSize size) { return from_logits(size, 2); }};
const RegisterOpCase scaled{"scale_rows", rows};
const RegisterOpCase summed{"sum_weights", sums};

}  // namespace
}  // namespace moelab
