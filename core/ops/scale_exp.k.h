// Row sums behind the gradient of a scale. T rows, W width.
#pragma once
#include "core/backend/for_each.h"

namespace moelab::MOELAB_KERNELS {

// row_T[t] = Σ_w a[t, w] · b[t, w] in f64.
template <class T>
void row_products(Index rows, Index width, const T* a_TW, const T* b_TW, double* row_T);

}  // namespace moelab::MOELAB_KERNELS
