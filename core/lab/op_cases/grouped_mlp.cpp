// grouped_mlp and grouped_linear. S source rows, R rows sorted by expert, E experts, H hidden, F
// width.
#include "core/autograd/functions.h"
#include "core/lab/op_case.h"

namespace moelab {
namespace {

struct Layout {
  Index sources = 0, hidden = 0, width = 0;
  std::vector<Index> offset;  // E + 1
  bool identity = false;      // rows are the sources: a dense layer
  bool weighted = true, bias = false;
  const char* activation = "swiglu";
};

OpInstance grouped(const Layout& layout) {
  const std::shared_ptr<const Activation> activation =
      Component<Activation>{layout.activation}.make({});
  const Index experts = static_cast<Index>(layout.offset.size()) - 1, rows = layout.offset.back();
  const Index hidden = layout.hidden, width = layout.width;
  const Index columns = activation->gated() ? 2 * width : width;
  OpInstance c;
  c.inputs = {OpInput::real({layout.sources, hidden}), OpInput::real({experts, columns, hidden}),
              OpInput::real({experts, hidden, width})};
  if (layout.weighted) c.inputs.push_back(OpInput::real({rows}, 0, 1));
  const std::size_t biases = c.inputs.size();
  if (layout.bias) {
    c.inputs.push_back(OpInput::real({experts, columns}));
    c.inputs.push_back(OpInput::real({experts, hidden}));
  }
  std::vector<std::int32_t> row;
  for (Index r = 0; r < rows; ++r)
    row.push_back(r % 13 == 5 ? -1 : static_cast<std::int32_t>(r * 7919 % layout.sources));
  c.build = [activation, weighted = layout.weighted, bias = layout.bias, biases,
             row_R = layout.identity
                         ? nullptr
                         : std::make_shared<const std::vector<std::int32_t>>(std::move(row)),
             offset = std::make_shared<const std::vector<Index>>(layout.offset)](
                Tape& t, const std::vector<Variable>& in) {
    GroupedMlp mlp{in[1], in[2], {}, {}, activation.get(), activation->gated()};
    if (bias) mlp.up_bias_eG = in[biases], mlp.down_bias_eH = in[biases + 1];
    return std::vector<Variable>{
        grouped_mlp(t, in[0], row_R, offset, weighted ? &in[3] : nullptr, mlp)};
  };
  c.forward.flops = 2.0 * static_cast<double>(rows * hidden * (columns + width));
  c.backward.flops = 2 * c.forward.flops;
  c.forward.bytes = 4.0 * static_cast<double>(rows * (2 * hidden + columns) +
                                              experts * hidden * (columns + width));
  c.backward.bytes = 2 * c.forward.bytes;
  c.saved_elements = rows * columns;
  return c;
}

OpInstance linear_groups(OpSize size) {
  const bool small = size == OpSize::small;
  const Index in = small ? 5 : 128, out = small ? 7 : 256;
  const std::vector<Index> offset =
      small ? std::vector<Index>{0, 4, 4, 5, 11} : std::vector<Index>{0, 700, 700, 1900, 4096};
  const Index experts = static_cast<Index>(offset.size()) - 1, rows = offset.back();
  OpInstance c;
  c.inputs = {OpInput::real({rows, in}), OpInput::real({experts, out, in})};
  c.build = [offset = std::make_shared<const std::vector<Index>>(offset)](
                Tape& t, const std::vector<Variable>& v) {
    return std::vector<Variable>{grouped_linear(t, v[0], offset, v[1])};
  };
  c.forward.flops = 2.0 * static_cast<double>(rows * in * out);
  c.backward.flops = 2 * c.forward.flops;
  c.saved_elements = 0;
  return c;
}

// One case: a small and a large layout.
RegisterOpCase both(const char* name, const Layout& small, const Layout& large) {
  return {name, [=](OpSize size) { return grouped(size == OpSize::small ? small : large); }};
}

const std::vector<Index> kFew{0, 5, 5, 6, 10};  // expert 1 has no rows, expert 2 one
const std::vector<Index> kMany{0, 130, 130, 131, 1024};

const RegisterOpCase swiglu =
    both("grouped_mlp", {7, 5, 6, kFew}, {600, 128, 128, {0, 1024, 1030, 2000, 4096}});
const RegisterOpCase biased = both("grouped_mlp_bias", {7, 5, 3, kFew, false, true, true, "geglu"},
                                   {600, 64, 96, kMany, false, true, true, "geglu"});
const RegisterOpCase ungated = both("grouped_mlp_plain", {7, 4, 5, kFew, false, true, true, "gelu"},
                                    {600, 64, 96, kMany, false, true, true, "relu2"});
const RegisterOpCase one_expert =
    both("grouped_mlp_one_expert", {7, 5, 6, {0, 0, 9, 9}}, {600, 64, 96, {0, 0, 900, 900}});
const RegisterOpCase no_rows =
    both("grouped_mlp_no_rows", {7, 5, 6, {0, 0, 0}}, {600, 64, 96, {0, 0, 0}});
const RegisterOpCase dense = both("grouped_mlp_dense", {9, 5, 6, {0, 9}, true, false},
                                  {4096, 128, 128, {0, 4096}, true, false});
const RegisterOpCase dense_biased =
    both("grouped_mlp_dense_bias", {9, 5, 6, {0, 9}, true, false, true, "silu"},
         {1000, 64, 96, {0, 1000}, true, false, true, "silu"});
const RegisterOpCase linear{"grouped_linear", linear_groups};

}  // namespace
}  // namespace moelab
