// The bias of a linear layer. R rows, F columns.
#pragma once
#include "core/backend/for_each.h"

namespace moelab::MOELAB_KERNELS {

template <class T>
void broadcast_row(Index rows, Index columns, const T* b_F, T* y_RF);  // every row of y = b
// out_F = Σ_r x_RF (or += with accumulate), rows in order.
template <class T>
void column_sums(Index rows, Index columns, const T* x_RF, bool accumulate, T* out_F);

}  // namespace moelab::MOELAB_KERNELS
