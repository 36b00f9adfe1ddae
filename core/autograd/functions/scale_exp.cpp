#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "core/autograd/functions.h"
#include "core/ops/elementwise.k.h"
#include "core/ops/scale_exp.k.h"

namespace moelab {
namespace {

void scaled(const Tensor& from, double factor, bool accumulate, const Tensor& to) {
  dispatch_real(from.dtype(), "scale_exp", [&](auto zero) {
    using T = decltype(zero);
    MOELAB_KERNELS::add_scaled(from.numel(), static_cast<T>(factor), from.data<T>(), accumulate,
                               to.data<T>());
  });
}

// Σ a·b, rows in order.
double product_sum(const Tensor& a, const Tensor& b) {
  std::vector<double> row_T(static_cast<std::size_t>(a.size(0)));
  dispatch_real(a.dtype(), "scale_exp", [&](auto zero) {
    using T = decltype(zero);
    MOELAB_KERNELS::row_products(a.size(0), a.size(1), a.data<T>(), b.data<T>(), row_T.data());
  });
  return std::accumulate(row_T.begin(), row_T.end(), 0.0);
}

}  // namespace

Variable scale_exp(Tape& tape, const Variable& x, const Variable& exponent_1, double base,
                   double most) {
  const OpTimer timer(tape, "scale_exp");
  MOELAB_CHECK(x.value.rank() == 2 && exponent_1.value.numel() == 1, x.value.shape().text(), " by ",
               exponent_1.value.shape().text());
  const double exponent = dispatch_real(exponent_1.value.dtype(), "scale_exp", [&](auto zero) {
    return static_cast<double>(*exponent_1.value.data<decltype(zero)>());
  });
  const double free = base * std::exp(exponent), factor = std::min(free, most);
  Variable y = tape.output(tape.backend().empty_like(x.value), {&x, &exponent_1});
  scaled(x.value, factor, false, y.value);
  if (!y.needs_grad()) return y;
  tape.step("scale_exp", {y.slot()},
            [input = x.slot(), at = exponent_1.slot(), output = y.slot(), saved = x.value, factor,
             moves = free <= most](Tape& t) {
              const Tensor dy = t.grad(output);
              if (const Grad dx = t.grad_of(input)) scaled(dy, factor, dx.accumulate, dx.into);
              const Grad d = t.grad_of(at);
              if (!d) return;
              const double slope = moves ? factor * product_sum(dy, saved) : 0.0;
              dispatch_real(at.dtype, "scale_exp", [&](auto zero) {
                using T = decltype(zero);
                MOELAB_KERNELS::fill(1, static_cast<T>(slope), d.accumulate, d.into.data<T>());
              });
            });
  return y;
}

}  // namespace moelab
