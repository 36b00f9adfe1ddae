#include "core/ops/norm.k.h"

#include <cmath>

namespace moelab::MOELAB_KERNELS {

template <class T>
void rms_norm_forward(Index rows, Index D, const T* x_TD, const T* w_D, T eps, T* y_TD, T* r_T) {
  for_each_row(rows, D, [=] MOELAB_HD(Team team, Index t) {
    const T* x = x_TD + t * D;
    T* y = y_TD + t * D;
    const T squares = team.sum(D, T(0), [=](Index i) { return x[i] * x[i]; });
    const T r = T(1) / std::sqrt(squares / static_cast<T>(D) + eps);
    team.each(D, [=](Index i) { y[i] = x[i] * r * w_D[i]; });
    if (Team::lane() == 0) r_T[t] = r;
  });
}

// dx = r·w·dy − x · r³/D · Σ w·dy·x
template <class T>
void rms_norm_backward_input(Index rows, Index D, const T* dy_TD, const T* x_TD, const T* w_D,
                             const T* r_T, bool accumulate, T* dx_TD) {
  for_each_row(rows, D, [=] MOELAB_HD(Team team, Index t) {
    const T* x = x_TD + t * D;
    const T* dy = dy_TD + t * D;
    T* dx = dx_TD + t * D;
    const T r = r_T[t];
    const T dot = team.sum(D, T(0), [=](Index i) { return w_D[i] * dy[i] * x[i]; });
    const T c = dot * r * r * r / static_cast<T>(D);
    if (accumulate)
      team.each(D, [=](Index i) { dx[i] += r * w_D[i] * dy[i] - c * x[i]; });
    else
      team.each(D, [=](Index i) { dx[i] = r * w_D[i] * dy[i] - c * x[i]; });
  });
}

template <class T>
void layer_norm_forward(Index rows, Index D, const T* x_TD, const T* w_D, const T* b_D, T eps,
                        T* y_TD, T* mean_T, T* r_T) {
  for_each_row(rows, D, [=] MOELAB_HD(Team team, Index t) {
    const T* x = x_TD + t * D;
    T* y = y_TD + t * D;
    const T mean = team.sum(D, T(0), [=](Index i) { return x[i]; }) / static_cast<T>(D);
    const T squares = team.sum(D, T(0), [=](Index i) { return (x[i] - mean) * (x[i] - mean); });
    const T r = T(1) / std::sqrt(squares / static_cast<T>(D) + eps);
    if (b_D)
      team.each(D, [=](Index i) { y[i] = (x[i] - mean) * r * w_D[i] + b_D[i]; });
    else
      team.each(D, [=](Index i) { y[i] = (x[i] - mean) * r * w_D[i]; });
    if (Team::lane() == 0) {
      mean_T[t] = mean;
      r_T[t] = r;
    }
  });
}

// With n = (x − mean)·r and g = w·dy: dx = r · (g − mean(g) − n · mean(g·n))
template <class T>
void layer_norm_backward_input(Index rows, Index D, const T* dy_TD, const T* x_TD, const T* w_D,
                               const T* mean_T, const T* r_T, bool accumulate, T* dx_TD) {
  for_each_row(rows, D, [=] MOELAB_HD(Team team, Index t) {
    const T* x = x_TD + t * D;
    const T* dy = dy_TD + t * D;
    T* dx = dx_TD + t * D;
    const T r = r_T[t], mean = mean_T[t], width = static_cast<T>(D);
    const T a = team.sum(D, T(0), [=](Index i) { return w_D[i] * dy[i]; }) / width;
    const T b =
        team.sum(D, T(0), [=](Index i) { return w_D[i] * dy[i] * (x[i] - mean); }) * r / width;
    if (accumulate)
      team.each(D, [=](Index i) { dx[i] += r * (w_D[i] * dy[i] - a - (x[i] - mean) * r * b); });
    else
      team.each(D, [=](Index i) { dx[i] = r * (w_D[i] * dy[i] - a - (x[i] - mean) * r * b); });
  });
}

template <class T>
void norm_backward_weight(Index rows, Index D, const T* dy_TD, const T* x_TD, const T* mean_T,
                          const T* r_T, bool accumulate, T* dw_D) {
  for_each_column_block(D, rows, [=] MOELAB_HD(Index begin, Index end) {
    if (!accumulate)
      for (Index i = begin; i < end; ++i) dw_D[i] = T(0);
    for (Index t = 0; t < rows; ++t) {
      const T* x = x_TD + t * D;
      const T* dy = dy_TD + t * D;
      const T r = r_T[t], mean = mean_T ? mean_T[t] : T(0);
#pragma omp simd
      for (Index i = begin; i < end; ++i) dw_D[i] += dy[i] * (x[i] - mean) * r;
    }
  });
}

template void rms_norm_forward(Index, Index, const float*, const float*, float, float*, float*);
template void rms_norm_backward_input(Index, Index, const float*, const float*, const float*,
                                      const float*, bool, float*);
template void layer_norm_forward(Index, Index, const float*, const float*, const float*, float,
                                 float*, float*, float*);
template void layer_norm_backward_input(Index, Index, const float*, const float*, const float*,
                                        const float*, const float*, bool, float*);
template void norm_backward_weight(Index, Index, const float*, const float*, const float*,
                                   const float*, bool, float*);
template void rms_norm_forward(Index, Index, const double*, const double*, double, double*,
                               double*);
template void rms_norm_backward_input(Index, Index, const double*, const double*, const double*,
                                      const double*, bool, double*);
template void layer_norm_forward(Index, Index, const double*, const double*, const double*, double,
                                 double*, double*, double*);
template void layer_norm_backward_input(Index, Index, const double*, const double*, const double*,
                                        const double*, const double*, bool, double*);
template void norm_backward_weight(Index, Index, const double*, const double*, const double*,
                                   const double*, bool, double*);

}  // namespace moelab::MOELAB_KERNELS
