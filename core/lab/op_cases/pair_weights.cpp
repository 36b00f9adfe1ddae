#include "core/autograd/functions.h"
#include "core/lab/op_case.h"

namespace moelab {
namespace {

// Every slot once, in an order of its own, with empty rows between: y of 3P/2 rows.
OpInstance gather(OpSize size) {
  const Index pairs = size == OpSize::small ? 22 : 32768;
  OpInstance c;
  c.inputs = {OpInput::real({pairs})};
  c.build = [pairs](Tape& t, const std::vector<Variable>& in) {
    auto slots = std::make_shared<std::vector<Index>>();
    for (Index p = 0; p < pairs; ++p) {
      slots->push_back((p * 7) % pairs);
      if (p % 2 == 0) slots->push_back(-1);
    }
    return std::vector<Variable>{gather_weights(t, in[0], slots)};
  };
  c.forward = c.backward = {.flops = 0, .bytes = 16.0 * static_cast<double>(pairs)};
  c.saved_elements = 0;
  return c;
}

// Tokens with 0 to 3 slots; some slots dropped, some tokens lose all. Without and with a floor that
// some sums are below.
OpInstance renormalize(OpSize size) {
  const Index tokens = size == OpSize::small ? 24 : 16384;
  std::vector<Index> offset_T1{0};
  for (Index t = 0; t < tokens; ++t) offset_T1.push_back(offset_T1.back() + t % 4);
  const Index pairs = offset_T1.back();
  std::vector<std::uint8_t> kept_P;
  for (Index p = 0; p < pairs; ++p) kept_P.push_back(p % 5 < 3 ? 1 : 0);
  OpInstance c;
  c.inputs = {OpInput::real({pairs}, 0.1, 1)};
  c.build = [offset_T1, kept_P](Tape& t, const std::vector<Variable>& in) {
    constexpr double kFloor = 0.75;
    return std::vector<Variable>{renormalize_weights(t, in[0], offset_T1, kept_P),
                                 renormalize_weights(t, in[0], offset_T1, kept_P, kFloor)};
  };
  c.forward = c.backward = {.flops = 4.0 * static_cast<double>(pairs),
                            .bytes = 24.0 * static_cast<double>(pairs)};
  return c;
}

OpInstance product(OpSize size) {
  const Index rows = size == OpSize::small ? 9 : 4096, width = size == OpSize::small ? 5 : 256;
  OpInstance c;
  c.inputs = {OpInput::real({rows, width}), OpInput::constant({rows, width}, 0.9, 1.1)};
  c.build = [](Tape& t, const std::vector<Variable>& in) {
    return std::vector<Variable>{multiply(t, in[0], in[1].value)};
  };
  const auto elements = static_cast<double>(rows * width);
  c.forward = c.backward = {.flops = elements, .bytes = 12 * elements};
  c.saved_elements = 0;
  return c;
}

const RegisterOpCase gathered{"gather_weights", gather};
const RegisterOpCase renormalized{"renormalize_weights", renormalize};
const RegisterOpCase multiplied{"multiply", product};

}  // namespace
}  // namespace moelab
