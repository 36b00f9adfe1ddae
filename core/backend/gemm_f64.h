// The f64 matrix product (oneDNN has none): packed panels and a register tile, for gemm.cpp.
#pragma once
#include "core/backend/gemm.h"

namespace moelab {

void gemm_f64(const GemmArgs<double>& args);  // m, n, k ≥ 1; on the calling thread

}  // namespace moelab
