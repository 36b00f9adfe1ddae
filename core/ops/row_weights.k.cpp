#include "core/ops/row_weights.k.h"

#include <cmath>

namespace moelab::MOELAB_KERNELS {

template <class T>
void token_weights(Index tokens, Index count, const T* l_TN, const std::uint8_t* valid_T, T* w_NT) {
  for_each_row(tokens, 16 * count, [=] MOELAB_HD(Team team, Index t) {
    if (team.lane() != 0) return;
    const T* l = l_TN + t * count;
    T most = l[0], sum = T(0);
    for (Index n = 1; n < count; ++n) most = l[n] > most ? l[n] : most;
    for (Index n = 0; n < count; ++n) sum += std::exp(l[n] - most);
    for (Index n = 0; n < count; ++n)
      w_NT[n * tokens + t] = valid_T[t] == 0 ? T(0)
                             : count == 1    ? T(1) / (T(1) + std::exp(-l[0]))
                                             : std::exp(l[n] - most) / sum;
  });
}

template <class T>
void token_weights_backward(Index tokens, Index count, const T* w_NT, const T* dw_NT,
                            bool accumulate, T* dl_TN) {
  for_each_row(tokens, 8 * count, [=] MOELAB_HD(Team team, Index t) {
    if (team.lane() != 0) return;
    T dot = T(0);
    for (Index n = 0; n < count; ++n) dot += dw_NT[n * tokens + t] * w_NT[n * tokens + t];
    for (Index n = 0; n < count; ++n) {
      const T w = w_NT[n * tokens + t], dw = dw_NT[n * tokens + t];
      const T dl = count == 1 ? dw * w * (T(1) - w) : w * (dw - dot);
      dl_TN[t * count + n] = accumulate ? dl_TN[t * count + n] + dl : dl;
    }
  });
}

template <class T>
void scale_rows(Index tokens, Index width, const T* x_TD, const T* w_T, bool accumulate, T* y_TD) {
  for_each_row(tokens, width, [=] MOELAB_HD(Team team, Index t) {
    const T* x = x_TD + t * width;
    T* y = y_TD + t * width;
    const T w = w_T[t];
    if (accumulate)
      team.each(width, [=](Index i) { y[i] += w * x[i]; });
    else
      team.each(width, [=](Index i) { y[i] = w * x[i]; });
  });
}

template <class T>
void row_products(Index tokens, Index width, const T* dy_TD, const T* x_TD, bool accumulate,
                  T* dw_T) {
  for_each_row(tokens, width, [=] MOELAB_HD(Team team, Index t) {
    const T* dy = dy_TD + t * width;
    const T* x = x_TD + t * width;
    const T dw = team.sum(width, T(0), [=](Index i) { return dy[i] * x[i]; });
    if (team.lane() == 0) dw_T[t] = accumulate ? dw_T[t] + dw : dw;
  });
}

template <class T>
void sum_slots(Index tokens, const Index* offset_T1, const std::uint8_t* chosen_P, const T* w_P,
               T* y_T) {
  for_each_row(tokens, 4, [=] MOELAB_HD(Team team, Index t) {
    if (team.lane() != 0) return;
    T sum = T(0);
    for (Index p = offset_T1[t]; p < offset_T1[t + 1]; ++p) sum += chosen_P[p] != 0 ? w_P[p] : T(0);
    y_T[t] = sum;
  });
}

template <class T>
void spread_slots(Index tokens, const Index* offset_T1, const std::uint8_t* chosen_P, const T* dy_T,
                  bool accumulate, T* dw_P) {
  for_each_row(tokens, 4, [=] MOELAB_HD(Team team, Index t) {
    const Index begin = offset_T1[t];
    team.each(offset_T1[t + 1] - begin, [=](Index i) {
      const T dw = chosen_P[begin + i] != 0 ? dy_T[t] : T(0);
      dw_P[begin + i] = accumulate ? dw_P[begin + i] + dw : dw;
    });
  });
}

template void token_weights(Index, Index, const float*, const std::uint8_t*, float*);
template void token_weights(Index, Index, const double*, const std::uint8_t*, double*);
template void token_weights_backward(Index, Index, const float*, const float*, bool, float*);
template void token_weights_backward(Index, Index, const double*, const double*, bool, double*);
template void scale_rows(Index, Index, const float*, const float*, bool, float*);
template void scale_rows(Index, Index, const double*, const double*, bool, double*);
template void row_products(Index, Index, const float*, const float*, bool, float*);
template void row_products(Index, Index, const double*, const double*, bool, double*);
template void sum_slots(Index, const Index*, const std::uint8_t*, const float*, float*);
template void sum_slots(Index, const Index*, const std::uint8_t*, const double*, double*);
template void spread_slots(Index, const Index*, const std::uint8_t*, const float*, bool, float*);
template void spread_slots(Index, const Index*, const std::uint8_t*, const double*, bool, double*);

}  // namespace moelab::MOELAB_KERNELS
