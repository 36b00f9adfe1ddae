// FormulaActivation: a member of the activation family from a scalar formula: the loops over rows,
// shared by all of them. F width; gated rows are [gate | up] of width 2F, a = w·f(gate)·up; plain
// rows have width F, a = w·f(h).
#pragma once
#include <string>

#include "core/backend/panel_width.h"
#include "core/ops/activation.h"
#include "core/ops/activation.k.h"

namespace moelab {

// value(gate, up) is the activation.
template <class T, class Value>
void gated_forward(const ActivationRows<T>& rows, const Value& value) {
  at_width(rows.width, [&](auto fixed) {
    const Index width = fixed() > 0 ? fixed() : rows.width;
    const Index up_at = rows.up_at(), h_row = rows.h_row(true), a_row = rows.a_row();
    for (Index r = 0; r < rows.rows; ++r) {
      const T* gate = rows.h + r * h_row;
      const T* up = gate + up_at;
      T* a = rows.a + r * a_row;
      const T w = rows.weight ? rows.weight[r] : T(1);
#pragma omp simd
      for (Index j = 0; j < width; ++j) a[j] = value(gate[j], up[j]) * w;
    }
  });
}

template <class Formula, class T>
void plain_forward(const ActivationRows<T>& rows) {
  at_width(rows.width, [&](auto fixed) {
    const Index width = fixed() > 0 ? fixed() : rows.width;
    const Index h_row = rows.h_row(false), a_row = rows.a_row();
    for (Index r = 0; r < rows.rows; ++r) {
      const T* h = rows.h + r * h_row;
      T* a = rows.a + r * a_row;
      const T w = rows.weight ? rows.weight[r] : T(1);
#pragma omp simd
      for (Index j = 0; j < width; ++j) a[j] = Formula::at(h[j]).value * w;
    }
  });
}

template <class T>
struct GatedSlopes {
  T value, gate, up;  // the activation and its derivatives
};

// kAgain: also write the activation, which backward needs for the down projection's gradient.
// slopes(gate, up) are the activation's.
template <bool kAgain, class T, class Slopes>
void gated_backward(const ActivationRows<T>& rows, const Slopes& slopes) {
  at_width(rows.width, [&](auto fixed) {
    const Index width = fixed() > 0 ? fixed() : rows.width;
    const Index up_at = rows.up_at(), dup_at = rows.dup_at();
    const Index h_row = rows.h_row(true), dh_row = rows.dh_row(true);
    const Index a_row = rows.a_row(), da_row = rows.da_row();
    for (Index r = 0; r < rows.rows; ++r) {
      const T* gate = rows.h + r * h_row;
      const T* up = gate + up_at;
      const T* da = rows.da + r * da_row;
      T* dgate = rows.dh + r * dh_row;
      T* dup = dgate + dup_at;
      T* a = kAgain ? rows.a + r * a_row : nullptr;
      const T w = rows.weight ? rows.weight[r] : T(1);
      T dweight = T(0);
#pragma omp simd reduction(+ : dweight)
      for (Index j = 0; j < width; ++j) {
        const GatedSlopes<T> s = slopes(gate[j], up[j]);
        const T d = da[j];
        dweight += d * s.value;
        dgate[j] = d * w * s.gate;
        dup[j] = d * w * s.up;
        if constexpr (kAgain) a[j] = s.value * w;
      }
      if (rows.dweight) rows.dweight[r] = dweight;
    }
  });
}

template <class Formula, bool kAgain, class T>
void plain_backward(const ActivationRows<T>& rows) {
  at_width(rows.width, [&](auto fixed) {
    const Index width = fixed() > 0 ? fixed() : rows.width;
    const Index h_row = rows.h_row(false), dh_row = rows.dh_row(false);
    const Index a_row = rows.a_row(), da_row = rows.da_row();
    for (Index r = 0; r < rows.rows; ++r) {
      const T* h = rows.h + r * h_row;
      const T* da = rows.da + r * da_row;
      T* dh = rows.dh + r * dh_row;
      T* a = kAgain ? rows.a + r * a_row : nullptr;
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
  });
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
      gated_forward(rows, [](T gate, T up) { return Formula::at(gate).value * up; });
    else
      plain_forward<Formula>(rows);
  }
  template <class T>
  static void run_backward(const ActivationRows<T>& rows) {
    if constexpr (kGated) {
      const auto slopes = [](T gate, T up) -> GatedSlopes<T> {
        const auto f = Formula::at(gate);
        return {f.value * up, f.slope * up, f.value};
      };
      rows.a ? gated_backward<true>(rows, slopes) : gated_backward<false>(rows, slopes);
    } else {
      rows.a ? plain_backward<Formula, true>(rows) : plain_backward<Formula, false>(rows);
    }
  }
};

}  // namespace moelab
