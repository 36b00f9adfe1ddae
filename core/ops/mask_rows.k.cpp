#include "core/ops/mask_rows.k.h"

namespace moelab::MOELAB_KERNELS {

template <class T>
void mask_rows(Index rows, Index width, const T* x_TD, const std::uint8_t* valid_T, T* y_TD) {
  for_each_row(rows, width, [=] MOELAB_HD(Team team, Index t) {
    const T* x = x_TD + t * width;
    T* y = y_TD + t * width;
    if (valid_T[t])
      team.each(width, [=](Index i) { y[i] = x[i]; });
    else
      team.each(width, [=](Index i) { y[i] = T(0); });
  });
}

template void mask_rows(Index, Index, const float*, const std::uint8_t*, float*);
template void mask_rows(Index, Index, const double*, const std::uint8_t*, double*);

}  // namespace moelab::MOELAB_KERNELS
