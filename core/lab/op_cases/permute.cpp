// gather_rows and combine_rows.
#include "core/autograd/functions.h"
#include "core/lab/op_case.h"

namespace moelab {
namespace {

using Rows = std::shared_ptr<const std::vector<std::int32_t>>;

// `rows` references to `sources` rows, some repeated, some −1.
Rows references(Index rows, Index sources) {
  std::vector<std::int32_t> out;
  for (Index r = 0; r < rows; ++r)
    out.push_back(r % 11 == 4 ? -1 : static_cast<std::int32_t>(r * 7919 % sources));
  return std::make_shared<const std::vector<std::int32_t>>(std::move(out));
}

OpCost moved(Index rows, Index width) {
  return {.flops = 0, .bytes = 8.0 * static_cast<double>(rows * width)};
}

OpInstance gather(OpSize size) {
  const bool small = size == OpSize::small;
  const Index sources = small ? 9 : 4096, rows = small ? 25 : 8192, width = small ? 5 : 128;
  OpInstance c;
  c.inputs = {OpInput::real({sources, width})};
  c.build = [row = references(rows, sources)](Tape& t, const std::vector<Variable>& in) {
    return std::vector<Variable>{gather_rows(t, in[0], row)};
  };
  c.forward = c.backward = moved(rows, width);
  c.saved_elements = 0;
  return c;
}

// Tokens with 0 to 2 slots; slots that refer to no row, rows to which none refers.
OpInstance combine(OpSize size) {
  const bool small = size == OpSize::small;
  const Index tokens = small ? 12 : 4096, width = small ? 5 : 128;
  std::vector<Index> offset{0};
  for (Index t = 0; t < tokens; ++t) offset.push_back(offset.back() + (t % 5 == 3 ? 0 : 1 + t % 2));
  const Index pairs = offset.back(), rows = pairs + 3;
  OpInstance c;
  c.inputs = {OpInput::real({rows, width})};
  c.build = [row = references(pairs, rows),
             offset = std::make_shared<const std::vector<Index>>(std::move(offset))](
                Tape& t, const std::vector<Variable>& in) {
    return std::vector<Variable>{combine_rows(t, in[0], row, offset)};
  };
  c.forward = c.backward = moved(pairs, width);
  c.saved_elements = 0;
  return c;
}

const RegisterOpCase gathers{"gather_rows", gather};
const RegisterOpCase combines{"combine_rows", combine};

}  // namespace
}  // namespace moelab
