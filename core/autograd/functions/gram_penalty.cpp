// G = U Uᵀ − I, U the rows of w or w / |w|. V = Σ |G_ij| or Σ G_ij², S = dV/dG (symmetric), dU = 2
// S U, dw = (dU − U (U · dU)) / |w| where rows are normalised.
#include <cmath>

#include "core/autograd/functions.h"
#include "core/backend/gemm.h"

namespace moelab {
namespace {

// Rows over their length; a row of zeros stays one.
template <class T>
void normalize_rows(const Tensor& w, const Tensor& u, const Tensor& length_E) {
  const Index width = w.size(1);
  for (Index e = 0; e < w.size(0); ++e) {
    const T* from = w.data<T>() + e * width;
    double square = 0;
    for (Index h = 0; h < width; ++h) square += static_cast<double>(from[h]) * from[h];
    const double length = std::sqrt(square);
    length_E.data<double>()[e] = length;
    const double inverse = length > 0 ? 1 / length : 0;
    for (Index h = 0; h < width; ++h)
      u.data<T>()[e * width + h] = static_cast<T>(from[h] * inverse);
  }
}

// `gram` becomes S; returns V.
template <class T>
double slopes(const Tensor& gram, bool squared) {
  const Index experts = gram.size(0);
  double value = 0;
  for (Index i = 0; i < experts; ++i)
    for (Index j = 0; j < experts; ++j) {
      T& at = gram.data<T>()[i * experts + j];
      const double g = static_cast<double>(at) - (i == j ? 1 : 0);
      value += squared ? g * g : std::abs(g);
      at = static_cast<T>(squared ? 2 * g : g > 0 ? 1 : g < 0 ? -1 : 0);
    }
  return value;
}

template <class T>
void through_lengths(const Tensor& u, const Tensor& length_E, const Tensor& du, const Grad& dw) {
  const Index width = u.size(1);
  for (Index e = 0; e < u.size(0); ++e) {
    const T *row = u.data<T>() + e * width, *slope = du.data<T>() + e * width;
    double along = 0;
    for (Index h = 0; h < width; ++h) along += static_cast<double>(row[h]) * slope[h];
    const double length = length_E.data<double>()[e];
    for (Index h = 0; h < width; ++h) {
      T& to = dw.into.data<T>()[e * width + h];
      const double value = length > 0 ? (slope[h] - along * row[h]) / length : 0;
      to = static_cast<T>(value) + (dw.accumulate ? to : T(0));
    }
  }
}

template <class T>
void times_slopes(const Tensor& slope_EE, const Tensor& u, double factor, double beta,
                  const Tensor& to) {
  const Index experts = u.size(0), width = u.size(1);
  gemm<T>({.m = experts,
           .n = width,
           .k = experts,
           .alpha = static_cast<T>(factor),
           .a = slope_EE.data<T>(),
           .lda = experts,
           .b = u.data<T>(),
           .ldb = width,
           .beta = static_cast<T>(beta),
           .c = to.data<T>(),
           .ldc = width});
}

}  // namespace

Variable gram_penalty(Tape& tape, const Variable& w_EH, const GramRule& rule) {
  const OpTimer timer(tape, "gram_penalty");
  const Backend& backend = tape.backend();
  const DType dtype = w_EH.value.dtype();
  const Index experts = w_EH.value.size(0), width = w_EH.value.size(1);
  const Tensor u_EH = rule.normalize ? backend.empty_like(w_EH.value) : w_EH.value;
  const Tensor length_E = backend.empty(DType::f64, {experts});
  const Tensor slope_EE = backend.empty(dtype, {experts, experts});
  Variable y = tape.output(backend.empty(dtype, {1}), {&w_EH});
  dispatch_real(dtype, "gram_penalty", [&]<class T>(T) {
    if (rule.normalize) normalize_rows<T>(w_EH.value, u_EH, length_E);
    gemm<T>({.transpose_b = true,
             .m = experts,
             .n = experts,
             .k = width,
             .a = u_EH.data<T>(),
             .lda = width,
             .b = u_EH.data<T>(),
             .ldb = width,
             .c = slope_EE.data<T>(),
             .ldc = experts});
    *y.value.data<T>() = static_cast<T>(slopes<T>(slope_EE, rule.squared));
  });
  if (!y.needs_grad()) return y;
  tape.step("gram_penalty", {y.slot()},
            [input = w_EH.slot(), output = y.slot(), u_EH, length_E, slope_EE,
             normalize = rule.normalize](Tape& t) {
              const Grad dw = t.grad_of(input);
              if (!dw) return;
              dispatch_real(input.dtype, "gram_penalty", [&]<class T>(T) {
                const double factor = 2 * static_cast<double>(*t.grad(output).data<T>());
                if (!normalize) return times_slopes<T>(slope_EE, u_EH, factor, dw.beta(), dw.into);
                const Tensor du_EH = t.backend().empty_like(u_EH);
                times_slopes<T>(slope_EE, u_EH, factor, 0, du_EH);
                through_lengths<T>(u_EH, length_E, du_EH, dw);
              });
            });
  return y;
}

}  // namespace moelab
