// FormulaActivation: a member of the activation family from a scalar formula: the loops over rows,
// shared by all of them. F width; gated rows are [gate | up] of width 2F, a = w·f(gate)·up; plain
// rows have width F, a = w·f(h).
#pragma once
#include <string>

#include "core/ops/activation.h"
#include "core/ops/activation.k.h"

namespace moelab {

template <class Formula, class T>
void gated_forward(const ActivationRows<T>& rows) {
  const Index width = rows.width;
  for (Index r = 0; r < rows.rows; ++r) {
    const T* gate = rows.h + r * 2 * width;
    const T* up = gate + width;
    T* a = rows.a + r * width;
    const T w = rows.weight ? rows.weight[r] : T(1);
#pragma omp simd
    for (Index j = 0; j < width; ++j) a[j] = Formula::at(gate[j]).value * up[j] * w;
  }
}

template <class Formula, class T>
void plain_forward(const ActivationRows<T>& rows) {
  const Index width = rows.width;
  for (Index r = 0; r < rows.rows; ++r) {
    const T* h = rows.h + r * width;
    T* a = rows.a + r * width;
    const T w = rows.weight ? rows.weight[r] : T(1);
#pragma omp simd
    for (Index j = 0; j < width; ++j) a[j] = Formula::at(h[j]).value * w;
  }
}

// kAgain: also write the activation, which backward needs for the down projection's gradient.
template <class Formula, bool kAgain, class T>
void gated_backward(const ActivationRows<T>& rows) {
  const Index width = rows.width;
  for (Index r = 0; r < rows.rows; ++r) {
    const T* gate = rows.h + r * 2 * width;
    const T* up = gate + width;
    const T* da = rows.da + r * width;
    T* dgate = rows.dh + r * 2 * width;
    T* dup = dgate + width;
    T* a = kAgain ? rows.a + r * width : nullptr;
    const T w = rows.weight ? rows.weight[r] : T(1);
    T dweight = T(0);
#pragma omp simd reduction(+ : dweight)
    for (Index j = 0; j < width; ++j) {
      const auto f = Formula::at(gate[j]);
      const T u = up[j], d = da[j], act = f.value * u, dw = d * w;
      dweight += d * act;
      dgate[j] = dw * u * f.slope;
      dup[j] = dw * f.value;
      if constexpr (kAgain) a[j] = act * w;
    }
    if (rows.dweight) rows.dweight[r] = dweight;
  }
}

template <class Formula, bool kAgain, class T>
void plain_backward(const ActivationRows<T>& rows) {
  const Index width = rows.width;
  for (Index r = 0; r < rows.rows; ++r) {
    const T* h = rows.h + r * width;
    const T* da = rows.da + r * width;
    T* dh = rows.dh + r * width;
    T* a = kAgain ? rows.a + r * width : nullptr;
    const T w = rows.weight ? rows.weight[r] : T(1);
    T dweight = T(0);
#pragma omp simd reduction(+ : dweight)
    for (Index j = 0; j < width; ++j) {
      const auto f = Formula::at(h[j]);
      const T d = da[j];
      dweight += d * f.value;
      dh[j] = d * w * f.slope;
      if constexpr (kAgain) a[j] = f.value * w;
    }
    if (rows.dweight) rows.dweight[r] = dweight;
  }
}

template <class Formula, bool kGated>
class FormulaActivation final : public Activation {
 public:
  struct Params {
    void describe(ParamVisitor&) {}
    Activation::Traits traits() const { return {kGated}; }
    std::string formula() const {
      return kGated ? std::string(Formula::kName) + "(gate) · up"
                    : std::string(Formula::kName) + "(h)";
    }
  };
  FormulaActivation(const Params&, const Context&) {}
  bool gated() const override { return kGated; }
  void forward(const ActivationRows<float>& rows) const override { run_forward(rows); }
  void forward(const ActivationRows<double>& rows) const override { run_forward(rows); }
  void backward(const ActivationRows<float>& rows) const override { run_backward(rows); }
  void backward(const ActivationRows<double>& rows) const override { run_backward(rows); }

 private:
  template <class T>
  static void run_forward(const ActivationRows<T>& rows) {
    if constexpr (kGated)
      gated_forward<Formula>(rows);
    else
      plain_forward<Formula>(rows);
  }
  template <class T>
  static void run_backward(const ActivationRows<T>& rows) {
    if constexpr (kGated)
      rows.a ? gated_backward<Formula, true>(rows) : gated_backward<Formula, false>(rows);
    else
      rows.a ? plain_backward<Formula, true>(rows) : plain_backward<Formula, false>(rows);
  }
};

}  // namespace moelab
