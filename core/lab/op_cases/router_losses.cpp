#include "core/autograd/functions.h"
#include "core/lab/op_case.h"

namespace moelab {
namespace {

struct Sizes {
  Index tokens, experts, instances;
  explicit Sizes(OpSize size)
      : tokens(size == OpSize::small ? 13 : 8192),
        experts(size == OpSize::small ? 7 : 64),
        instances(size == OpSize::small ? 3 : 32) {}
  double elements() const { return static_cast<double>(tokens * experts); }
};

Tensor as_f64(const Backend& backend, const Tensor& t) {
  const Tensor out = backend.empty(DType::f64, t.shape());
  dispatch_real(t.dtype(), "as_f64", [&](auto zero) {
    const auto from = t.span<decltype(zero)>();
    std::copy(from.begin(), from.end(), out.data<double>());
  });
  return out;
}

// Inputs: scores, coefficients, instance of each token (−1: none).
OpInstance score_sum(OpSize size) {
  const Sizes s(size);
  OpInstance c;
  c.inputs = {OpInput::real({s.tokens, s.experts}, 0, 1),
              OpInput::constant({s.instances, s.experts}, 0, 2),
              OpInput::integers(DType::i32, {s.tokens}, -1, static_cast<double>(s.instances - 1))};
  c.build = [](Tape& t, const std::vector<Variable>& in) {
    const auto instance = in[2].value.span<std::int32_t>();
    return std::vector<Variable>{weighted_score_sum(t, in[0], as_f64(t.backend(), in[1].value),
                                                    {instance.begin(), instance.end()})};
  };
  c.forward = {.flops = 2 * s.elements(), .bytes = 4 * s.elements()};
  c.backward = {.flops = s.elements(), .bytes = 8 * s.elements()};
  return c;
}

// Inputs: logits, weight of each token (a third of them 0).
OpInstance lse_square(OpSize size) {
  const Sizes s(size);
  OpInstance c;
  c.inputs = {OpInput::real({s.tokens, s.experts}, -3, 3), OpInput::constant({s.tokens}, 0, 1)};
  c.build = [](Tape& t, const std::vector<Variable>& in) {
    const Tensor weight = as_f64(t.backend(), in[1].value);
    for (double& w : weight.span<double>())
      if (w < 0.33) w = 0;
    return std::vector<Variable>{weighted_lse_square(t, in[0], weight)};
  };
  c.forward = {.flops = 15 * s.elements(), .bytes = 4 * s.elements()};
  c.backward = {.flops = 15 * s.elements(), .bytes = 12 * s.elements()};
  return c;
}

const RegisterOpCase sum{"weighted_score_sum", score_sum};
const RegisterOpCase lse{"weighted_lse_square", lse_square};

}  // namespace
}  // namespace moelab
