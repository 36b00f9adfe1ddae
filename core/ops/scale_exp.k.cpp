#include "core/ops/scale_exp.k.h"

namespace moelab::MOELAB_KERNELS {

template <class T>
void row_products(Index rows, Index width, const T* a_TW, const T* b_TW, double* row_T) {
  for_each_row(rows, width, [=] MOELAB_HD(Team team, Index t) {
    const T* a = a_TW + t * width;
    const T* b = b_TW + t * width;
    const double sum = team.sum(
        width, 0.0, [=](Index i) { return static_cast<double>(a[i]) * static_cast<double>(b[i]); });
    if (team.lane() == 0) row_T[t] = sum;
  });
}

template void row_products(Index, Index, const float*, const float*, double*);
template void row_products(Index, Index, const double*, const double*, double*);

}  // namespace moelab::MOELAB_KERNELS
