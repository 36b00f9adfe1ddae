#include "core/ops/linear.k.h"

namespace moelab::MOELAB_KERNELS {

template <class T>
void broadcast_row(Index rows, Index columns, const T* b_F, T* y_RF) {
  for_each_row(rows, columns, [=] MOELAB_HD(Team team, Index r) {
    team.each(columns, [=](Index i) { y_RF[r * columns + i] = b_F[i]; });
  });
}

template <class T>
void column_sums(Index rows, Index columns, const T* x_RF, bool accumulate, T* out_F) {
  for_each_column_block(columns, rows, [=] MOELAB_HD(Index begin, Index end) {
    if (!accumulate)
      for (Index i = begin; i < end; ++i) out_F[i] = T(0);
    for (Index r = 0; r < rows; ++r) {
      const T* x = x_RF + r * columns;
#pragma omp simd
      for (Index i = begin; i < end; ++i) out_F[i] += x[i];
    }
  });
}

template void broadcast_row(Index, Index, const float*, float*);
template void broadcast_row(Index, Index, const double*, double*);
template void column_sums(Index, Index, const float*, bool, float*);
template void column_sums(Index, Index, const double*, bool, double*);

}  // namespace moelab::MOELAB_KERNELS
