// What must hold for every op case. Each check returns the worst error it saw and where; the caller
// compares with core/lab/tolerance.h. NaN counts as infinite error.
#pragma once
#include <string>
#include <vector>

#include "core/lab/op_case.h"

namespace moelab {

struct OpError {
  double worst = 0;   // relative to the largest element of the tensor
  std::string where;  // "gradient of input 1, element 17: 0.25 instead of 0.5"
};

// Gradients in f64 against central differences of a random combination of the outputs, at up to
// `samples` elements an input.
OpError check_finite_differences(const OpCase& op, Index samples = 24);
// Outputs and gradients in f32 against f64.
OpError check_precision(const OpCase& op);
// A gradient that exists already is added to: g0 + g against g, in f64.
OpError check_accumulation(const OpCase& op);
// Outputs and gradients for 1, 2 and 4 threads: names the first tensor that differs in a bit, or
// "".
std::string check_thread_equality(const OpCase& op, DType dtype, OpSize size);
// Bytes that the case keeps for backward beside its inputs, in f64.
std::size_t measure_saved_bytes(const OpCase& op);

// |got − want| over the largest |want|, worst over the elements. f32 or f64 each.
OpError compare(const Tensor& got, const Tensor& want, const std::string& what);

}  // namespace moelab
