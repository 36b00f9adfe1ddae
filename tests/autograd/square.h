// A minimal op for tests of the tape: y = factor · x², saving x.
#pragma once
#include "core/autograd/tape.h"

namespace moelab::testing {

inline Variable square(Tape& tape, const Variable& x, double factor = 1.0) {
  const OpTimer timer(tape, "square");
  const Index n = x.value.numel();
  const Tensor y_value = tape.backend().empty_like(x.value);
  for (Index i = 0; i < n; ++i) {
    const double v = x.value.data<double>()[i];
    y_value.data<double>()[i] = factor * v * v;
  }
  Variable y = tape.output(y_value, {&x});
  if (y.needs_grad())
    tape.step("square", {y.slot()},
              [dx = x.slot(), dy = y.slot(), x = x.value, n, factor](Tape& t) {
                const double* from = t.grad(dy).data<double>();
                if (const Grad g = t.grad_of(dx))
                  for (Index i = 0; i < n; ++i) {
                    double& to = g.into.data<double>()[i];
                    to = (g.accumulate ? to : 0.0) + 2 * factor * x.data<double>()[i] * from[i];
                  }
              });
  return y;
}

inline Tensor vector_of(const Backend& backend, std::initializer_list<double> values) {
  Tensor t = backend.empty(DType::f64, {static_cast<Index>(values.size())});
  std::copy(values.begin(), values.end(), t.data<double>());
  return t;
}

inline std::vector<double> values_of(const Tensor& t) {
  const auto s = t.span<double>();
  return {s.begin(), s.end()};
}

}  // namespace moelab::testing
