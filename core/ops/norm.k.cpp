#include "core/ops/norm.k.h"

#include <cmath>

namespace moelab::MOELAB_KERNELS {

template <class T>
void rms_norm_forward(Index rows, Index width, const T* x_TD, const T* w_D, T eps, T* y_TD,
                      T* r_T) {
  for_each_row(rows, width, [=] MOELAB_HD(Team team, Index t) {
    const T* x = x_TD + t * width;
    T* y = y_TD + t * width;
    const T squares = team.sum(width, T(0), [=](Index i) { return x[i] * x[i]; });
    const T r = T(1) / std::sqrt(squares / static_cast<T>(width) + eps);
    team.each(width, [=](Index i) { y[i] = x[i] * r * w_D[i]; });
    if (Team::lane() == 0) r_T[t] = r;
  });
}

// dx = r·w·dy − x · r³/D · Σ w·dy·x
template <class T>
void rms_norm_backward(Index rows, Index width, const T* dy_TD, const T* x_TD, const T* w_D,
                       const T* r_T, bool accumulate, T* dx_TD, T* partial_CD) {
  const Index chunks = rms_norm_chunks(rows);
  for_each_row(chunks, 2 * kRmsNormChunk * width, [=] MOELAB_HD(Team team, Index chunk) {
    T* dw = partial_CD ? partial_CD + chunk * width : nullptr;
    if (dw) team.each(width, [=](Index i) { dw[i] = T(0); });
    const Index end = rows < (chunk + 1) * kRmsNormChunk ? rows : (chunk + 1) * kRmsNormChunk;
    for (Index t = chunk * kRmsNormChunk; t < end; ++t) {
      const T* x = x_TD + t * width;
      const T* dy = dy_TD + t * width;
      const T r = r_T[t];
      if (dw) team.each(width, [=](Index i) { dw[i] += dy[i] * x[i] * r; });
      if (!dx_TD) continue;
      T* dx = dx_TD + t * width;
      const T dot = team.sum(width, T(0), [=](Index i) { return w_D[i] * dy[i] * x[i]; });
      const T c = dot * r * r * r / static_cast<T>(width);
      if (accumulate)
        team.each(width, [=](Index i) { dx[i] += r * w_D[i] * dy[i] - c * x[i]; });
      else
        team.each(width, [=](Index i) { dx[i] = r * w_D[i] * dy[i] - c * x[i]; });
    }
  });
}

template <class T>
void layer_norm_forward(Index rows, Index width, const T* x_TD, const T* w_D, const T* b_D, T eps,
                        T* y_TD, T* mean_T, T* r_T) {
  for_each_row(rows, width, [=] MOELAB_HD(Team team, Index t) {
    const T* x = x_TD + t * width;
    T* y = y_TD + t * width;
    const T mean = team.sum(width, T(0), [=](Index i) { return x[i]; }) / static_cast<T>(width);
    const T squares = team.sum(width, T(0), [=](Index i) { return (x[i] - mean) * (x[i] - mean); });
    const T r = T(1) / std::sqrt(squares / static_cast<T>(width) + eps);
    if (b_D)
      team.each(width, [=](Index i) { y[i] = (x[i] - mean) * r * w_D[i] + b_D[i]; });
    else
      team.each(width, [=](Index i) { y[i] = (x[i] - mean) * r * w_D[i]; });
    if (Team::lane() == 0) {
      mean_T[t] = mean;
      r_T[t] = r;
    }
  });
}

// With n = (x − mean)·r and g = w·dy: dx = r · (g − mean(g) − n · mean(g·n))
template <class T>
void layer_norm_backward_input(Index rows, Index width, const T* dy_TD, const T* x_TD, const T* w_D,
                               const T* mean_T, const T* r_T, bool accumulate, T* dx_TD) {
  for_each_row(rows, width, [=] MOELAB_HD(Team team, Index t) {
    const T* x = x_TD + t * width;
    const T* dy = dy_TD + t * width;
    T* dx = dx_TD + t * width;
    const T r = r_T[t], mean = mean_T[t], size = static_cast<T>(width);
    const T a = team.sum(width, T(0), [=](Index i) { return w_D[i] * dy[i]; }) / size;
    const T b =
        team.sum(width, T(0), [=](Index i) { return w_D[i] * dy[i] * (x[i] - mean); }) * r / size;
    if (accumulate)
      team.each(width, [=](Index i) { dx[i] += r * (w_D[i] * dy[i] - a - (x[i] - mean) * r * b); });
    else
      team.each(width, [=](Index i) { dx[i] = r * (w_D[i] * dy[i] - a - (x[i] - mean) * r * b); });
  });
}

template <class T>
void norm_backward_weight(Index rows, Index width, const T* dy_TD, const T* x_TD, const T* mean_T,
                          const T* r_T, bool accumulate, T* dw_D) {
  for_each_column_block(width, rows, [=] MOELAB_HD(Index begin, Index end) {
    if (!accumulate)
      for (Index i = begin; i < end; ++i) dw_D[i] = T(0);
    for (Index t = 0; t < rows; ++t) {
      const T* x = x_TD + t * width;
      const T* dy = dy_TD + t * width;
      const T r = r_T[t], mean = mean_T ? mean_T[t] : T(0);
#pragma omp simd
      for (Index i = begin; i < end; ++i) dw_D[i] += dy[i] * (x[i] - mean) * r;
    }
  });
}

template void rms_norm_forward(Index, Index, const float*, const float*, float, float*, float*);
template void rms_norm_backward(Index, Index, const float*, const float*, const float*,
                                const float*, bool, float*, float*);
template void layer_norm_forward(Index, Index, const float*, const float*, const float*, float,
                                 float*, float*, float*);
template void layer_norm_backward_input(Index, Index, const float*, const float*, const float*,
                                        const float*, const float*, bool, float*);
template void norm_backward_weight(Index, Index, const float*, const float*, const float*,
                                   const float*, bool, float*);
template void rms_norm_forward(Index, Index, const double*, const double*, double, double*,
                               double*);
template void rms_norm_backward(Index, Index, const double*, const double*, const double*,
                                const double*, bool, double*, double*);
template void layer_norm_forward(Index, Index, const double*, const double*, const double*, double,
                                 double*, double*, double*);
template void layer_norm_backward_input(Index, Index, const double*, const double*, const double*,
                                        const double*, const double*, bool, double*);
template void norm_backward_weight(Index, Index, const double*, const double*, const double*,
                                   const double*, bool, double*);

}  // namespace moelab::MOELAB_KERNELS
