#include "core/autograd/functions.h"
#include "core/lab/op_case.h"

namespace moelab {
namespace {

// `documents`: ids 0..documents−1 at random, so that documents interleave; 1: one document.
OpInstance instance(const AttentionShape& s, Index documents) {
  const Index tokens = s.batch * s.length, wide = s.heads * s.head_dim;
  const Index narrow = s.kv_heads * s.head_dim;
  OpInstance c;
  c.inputs = {OpInput::real({tokens, wide}, -2, 2), OpInput::real({tokens, narrow}, -2, 2),
              OpInput::real({tokens, narrow}),
              OpInput::integers(DType::i32, {tokens}, 0, static_cast<double>(documents - 1))};
  c.build = [s](Tape& t, const std::vector<Variable>& in) {
    return std::vector<Variable>{attention(t, in[0], in[1], in[2], s, in[3].value)};
  };
  const Index scored = s.batch * s.heads * s.length * (s.length + 1) / 2;
  const auto pairs = static_cast<double>(scored);
  c.forward.flops = 4 * pairs * static_cast<double>(s.head_dim);
  c.backward.flops = 10 * pairs * static_cast<double>(s.head_dim);
  c.forward.bytes = 4.0 * static_cast<double>(2 * tokens * (wide + narrow));
  c.backward.bytes = 2 * c.forward.bytes;
  c.saved_elements = tokens * (wide + s.heads);
  return c;
}

AttentionShape pick(OpSize size, const AttentionShape& small, const AttentionShape& large) {
  return size == OpSize::small ? small : large;
}

const RegisterOpCase plain{"attention", [](OpSize size) {
                             return instance(pick(size, {2, 7, 2, 2, 5}, {32, 128, 4, 4, 32}), 1);
                           }};
const RegisterOpCase long_rows{
    "attention_long", [](OpSize size) {
      return instance(pick(size, {1, 41, 1, 1, 2}, {1, 1024, 4, 4, 64}), 1);
    }};
const RegisterOpCase grouped{"attention_grouped", [](OpSize size) {
                               return instance(pick(size, {2, 9, 4, 2, 4}, {8, 160, 8, 2, 64}), 1);
                             }};
const RegisterOpCase documents{
    "attention_documents", [](OpSize size) {
      return instance(pick(size, {2, 13, 2, 1, 4}, {8, 150, 4, 2, 32}), 3);
    }};
const RegisterOpCase one_token{
    "attention_one_token", [](OpSize size) {
      return instance(pick(size, {3, 1, 2, 2, 3}, {512, 1, 8, 4, 32}), 1);
    }};
const RegisterOpCase scaled{
    "attention_scaled", [](OpSize size) {
      return instance(pick(size, {1, 5, 2, 2, 20, 0.3}, {8, 128, 2, 2, 128, 0.05}), 1);
    }};

}  // namespace
}  // namespace moelab
