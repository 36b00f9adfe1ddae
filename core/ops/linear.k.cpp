#include "core/ops/linear.k.h"

namespace moelab::MOELAB_KERNELS {

template <class T>
void broadcast_row(Index R, Index F, const T* b_F, T* y_RF) {
  for_each_row(R, F, [=] MOELAB_HD(Team team, Index r) {
    team.each(F, [=](Index i) { y_RF[r * F + i] = b_F[i]; });
  });
}

template <class T>
void column_sums(Index R, Index F, const T* x_RF, bool accumulate, T* out_F) {
  for_each_column_block(F, R, [=] MOELAB_HD(Index begin, Index end) {
    if (!accumulate)
      for (Index i = begin; i < end; ++i) out_F[i] = T(0);
    for (Index r = 0; r < R; ++r) {
      const T* x = x_RF + r * F;
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
