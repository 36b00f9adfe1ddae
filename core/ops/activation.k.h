// The scalar formulas of the activations, each once: value and slope at x. Backends loop over them.
#pragma once
#include <cmath>

#include "core/backend/for_each.h"
#include "core/ops/math.k.h"

namespace moelab::MOELAB_KERNELS {

template <class T>
struct ValueSlope {
  T value, slope;
};

// erf to about 2 ulp of 1 in f32 (odd rational minimax fit on [-4, 4], as in Eigen and XLA); it
// vectorises where the library's does not. f64 takes the library's.
MOELAB_HD inline float fast_erf(float x) {
  x = x < -4.0F ? -4.0F : (x > 4.0F ? 4.0F : x);
  const float s = x * x;
  float p = -2.72614225801306e-10F;
  p = p * s + 2.77068142495902e-08F;
  p = p * s - 2.10102402082508e-06F;
  p = p * s - 5.69250639462346e-05F;
  p = p * s - 7.34990630326855e-04F;
  p = p * s - 2.95459980854025e-03F;
  p = p * s - 1.60960333262415e-02F;
  float q = -1.45660718464996e-05F;
  q = q * s - 2.13374055278905e-04F;
  q = q * s - 1.68282697438203e-03F;
  q = q * s - 7.37332916720468e-03F;
  q = q * s - 1.42647390514189e-02F;
  return x * p / q;
}
MOELAB_HD inline double fast_erf(double x) { return std::erf(x); }

// x·σ(x). (Elfwing et al. 2017; Ramachandran et al. 2017)
struct SiluFormula {
  static constexpr const char* kName = "silu";
  template <class T>
  MOELAB_HD static ValueSlope<T> at(T x) {
    const T s = T(1) / (T(1) + fast_exp(-x));
    return {x * s, s * (T(1) + x * (T(1) - s))};
  }
};

// x·Φ(x) with the exact normal distribution function (erf), not the tanh fit. (Hendrycks & Gimpel
// 2016)
struct GeluFormula {
  static constexpr const char* kName = "gelu";
  template <class T>
  MOELAB_HD static ValueSlope<T> at(T x) {
    const T cdf = T(0.5) * (T(1) + fast_erf(x * T(0.70710678118654752440)));
    const T density = T(0.39894228040143267794) * fast_exp(T(-0.5) * x * x);
    return {x * cdf, cdf + x * density};
  }
};

// max(x, 0)². (So et al. 2021)
struct Relu2Formula {
  static constexpr const char* kName = "relu2";
  template <class T>
  MOELAB_HD static ValueSlope<T> at(T x) {
    const T r = x > T(0) ? x : T(0);
    return {r * r, T(2) * r};
  }
};

// max(x, 0); the slope at 0 is 0.
struct ReluFormula {
  static constexpr const char* kName = "relu";
  template <class T>
  MOELAB_HD static ValueSlope<T> at(T x) {
    return {x > T(0) ? x : T(0), x > T(0) ? T(1) : T(0)};
  }
};

// g·σ(alpha·g)·(u + offset), g = min(gate, limit), u = up cut to [−limit, limit]. (gpt-oss, 2025)
template <class T>
struct ClampedSwiglu {
  T alpha, limit, offset;
  struct Slopes {
    T value, gate, up;
  };
  MOELAB_HD Slopes at(T gate, T up) const {
    const T g = gate > limit ? limit : gate;
    const T cut = up > limit ? limit : up;
    const T u = (cut < -limit ? -limit : cut) + offset;
    const T s = T(1) / (T(1) + fast_exp(-alpha * g));
    const T value = g * s;
    return {value * u, gate > limit ? T(0) : u * s * (T(1) + alpha * g * (T(1) - s)),
            up > limit || up < -limit ? T(0) : value};
  }
};

}  // namespace moelab::MOELAB_KERNELS
