// Moving rows: gather, and deterministic sums of rows. H width; indices of −1 are zero rows.
#pragma once
#include <cstdint>

#include "core/backend/for_each.h"

namespace moelab::MOELAB_KERNELS {

// y_RH[r] = x_SH[row_R[r]].
template <class T>
void gather_rows(Index rows, Index width, const T* x_SH, const std::int32_t* row_R, T* y_RH);

// y_SH[s] (+)= Σ_i x[index[i]] over i in [offset_S1[s], offset_S1[s+1]), in that order.
template <class T>
void sum_rows(Index rows, Index width, const T* x, const Index* offset_S1,
              const std::int32_t* index, bool accumulate, T* y_SH);

}  // namespace moelab::MOELAB_KERNELS
