#include "core/ops/embedding.k.h"

namespace moelab::MOELAB_KERNELS {

template <class T>
void embedding_forward(Index rows, Index width, const T* w_VD, const std::int32_t* id_T, T* y_TD) {
  for_each_row(rows, width, [=] MOELAB_HD(Team team, Index t) {
    const Index id = id_T[t];
    const T* w = w_VD + id * width;
    T* y = y_TD + t * width;
    if (id >= 0)
      team.each(width, [=](Index i) { y[i] = w[i]; });
    else
      team.each(width, [=](Index i) { y[i] = T(0); });
  });
}

template <class T>
void embedding_backward(Index rows, Index vocabulary, Index width, const T* dy_TD,
                        const std::int32_t* id_T, bool accumulate, T* dw_VD) {
  for_each_column_block(width, rows + vocabulary, [=] MOELAB_HD(Index begin, Index end) {
    if (!accumulate)
      for (Index v = 0; v < vocabulary; ++v)
        for (Index i = begin; i < end; ++i) dw_VD[v * width + i] = T(0);
    for (Index t = 0; t < rows; ++t) {
      if (id_T[t] < 0) continue;
      T* dw = dw_VD + id_T[t] * width;
      const T* dy = dy_TD + t * width;
#pragma omp simd
      for (Index i = begin; i < end; ++i) dw[i] += dy[i];
    }
  });
}

template void embedding_forward(Index, Index, const float*, const std::int32_t*, float*);
template void embedding_forward(Index, Index, const double*, const std::int32_t*, double*);
template void embedding_backward(Index, Index, Index, const float*, const std::int32_t*, bool,
                                 float*);
template void embedding_backward(Index, Index, Index, const double*, const std::int32_t*, bool,
                                 double*);

}  // namespace moelab::MOELAB_KERNELS
