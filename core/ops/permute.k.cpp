#include "core/ops/permute.k.h"

namespace moelab::MOELAB_KERNELS {

template <class T>
void gather_rows(Index rows, Index width, const T* x_SH, const std::int32_t* row_R, T* y_RH) {
  for_each_row(rows, width, [=] MOELAB_HD(Team team, Index r) {
    T* y = y_RH + r * width;
    if (row_R[r] < 0) {
      team.each(width, [=](Index j) { y[j] = T(0); });
    } else {
      const T* x = x_SH + row_R[r] * width;
      team.each(width, [=](Index j) { y[j] = x[j]; });
    }
  });
}

template <class T>
void sum_rows(Index rows, Index width, const T* x, const Index* offset_S1,
              const std::int32_t* index, bool accumulate, T* y_SH) {
  for_each_row(rows, width * 2, [=] MOELAB_HD(Team team, Index s) {
    T* y = y_SH + s * width;
    bool fresh = !accumulate;
    for (Index i = offset_S1[s]; i < offset_S1[s + 1]; ++i) {
      if (index[i] < 0) continue;
      const T* row = x + index[i] * width;
      if (fresh)
        team.each(width, [=](Index j) { y[j] = row[j]; });
      else
        team.each(width, [=](Index j) { y[j] += row[j]; });
      fresh = false;
    }
    if (fresh) team.each(width, [=](Index j) { y[j] = T(0); });
  });
}

template void gather_rows<float>(Index, Index, const float*, const std::int32_t*, float*);
template void gather_rows<double>(Index, Index, const double*, const std::int32_t*, double*);
template void sum_rows<float>(Index, Index, const float*, const Index*, const std::int32_t*, bool,
                              float*);
template void sum_rows<double>(Index, Index, const double*, const Index*, const std::int32_t*, bool,
                               double*);

}  // namespace moelab::MOELAB_KERNELS
