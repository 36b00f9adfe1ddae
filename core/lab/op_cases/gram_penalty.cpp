#include "core/autograd/functions.h"
#include "core/lab/op_case.h"

namespace moelab {
namespace {

OpInstance penalty(OpSize size, GramRule rule) {
  const Index experts = size == OpSize::small ? 5 : 128, width = size == OpSize::small ? 11 : 4096;
  OpInstance c;
  c.inputs = {OpInput::real({experts, width})};
  c.build = [rule](Tape& t, const std::vector<Variable>& in) {
    return std::vector<Variable>{gram_penalty(t, in[0], rule)};
  };
  const double products = 2.0 * static_cast<double>(experts * experts * width);
  const double bytes = 4.0 * static_cast<double>(experts * width);
  c.forward = {.flops = products, .bytes = bytes};
  c.backward = {.flops = products, .bytes = 2 * bytes};
  return c;
}

const RegisterOpCase absolute{"gram_penalty", [](OpSize size) { return penalty(size, {}); }};
const RegisterOpCase squared{"gram_penalty_squared", [](OpSize size) {
                               return penalty(size, {.squared = true, .normalize = true});
                             }};

}  // namespace
}  // namespace moelab
