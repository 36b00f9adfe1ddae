// The one table of tolerances, by dtype. Errors are relative to the largest element of the tensor
// they are measured on (op checks), or to the value itself (losses).
#pragma once
#include "core/base/check.h"
#include "core/tensor/dtype.h"

namespace moelab {

struct Tolerance {
  double reordered;  // the same numbers summed in another order
  double composed;   // the same formula from other ops
  double exact;      // against the result in wider arithmetic or a hand-computed value
  double layout;     // relative deviation of a loss over layouts (20 steps)
};

inline Tolerance tolerance(DType dtype) {
  if (dtype == DType::f64)
    return {.reordered = 1e-13, .composed = 1e-11, .exact = 1e-12, .layout = 1e-11};
  MOELAB_CHECK(dtype == DType::f32, "no tolerance for ", name_of(dtype));
  return {.reordered = 2e-6, .composed = 1e-5, .exact = 1e-5, .layout = 1e-6};
}

// Central differences in f64 against a gradient.
constexpr double kFiniteDifferenceTolerance = 2e-7;

}  // namespace moelab
