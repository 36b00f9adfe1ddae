#include "core/ops/router_losses.k.h"

#include <cmath>

#include "core/ops/math.k.h"

namespace moelab::MOELAB_KERNELS {

template <class T>
void weighted_score_rows(Index tokens, Index experts, const T* scores_TE, const double* c_GE,
                         const std::int32_t* instance_T, double* row_T) {
  for_each_row(tokens, experts, [=] MOELAB_HD(Team team, Index t) {
    const T* s = scores_TE + t * experts;
    const double* c = c_GE + (instance_T[t] < 0 ? 0 : instance_T[t]) * experts;
    const double sum = instance_T[t] < 0 ? 0.0 : team.sum(experts, 0.0, [=](Index e) {
      return c[e] * static_cast<double>(s[e]);
    });
    if (team.lane() == 0) row_T[t] = sum;
  });
}

template <class T>
void weighted_score_rows_backward(Index tokens, Index experts, T dy, const double* c_GE,
                                  const std::int32_t* instance_T, T* ds_TE, bool accumulate) {
  for_each_row(tokens, experts, [=] MOELAB_HD(Team team, Index t) {
    T* ds = ds_TE + t * experts;
    const double* c = c_GE + (instance_T[t] < 0 ? 0 : instance_T[t]) * experts;
    if (!accumulate) team.each(experts, [=](Index e) { ds[e] = T(0); });
    if (instance_T[t] < 0) return;
    team.each(experts, [=](Index e) { ds[e] += dy * static_cast<T>(c[e]); });
  });
}

template <class T>
void lse_square_rows(Index tokens, Index experts, const T* logits_TE, const double* weight_T,
                     T* lse_T, double* row_T) {
  for_each_row(tokens, experts, [=] MOELAB_HD(Team team, Index t) {
    const T* l = logits_TE + t * experts;
    T lse = T(0);
    if (weight_T[t] != 0) {
      const T most = team.max(experts, l[0], [=](Index e) { return l[e]; });
      lse =
          most + std::log(team.sum(experts, T(0), [=](Index e) { return fast_exp(l[e] - most); }));
    }
    if (team.lane() == 0) {
      lse_T[t] = lse;
      row_T[t] = weight_T[t] * static_cast<double>(lse) * static_cast<double>(lse);
    }
  });
}

template <class T>
void lse_square_rows_backward(Index tokens, Index experts, T dy, const T* logits_TE, const T* lse_T,
                              const double* weight_T, T* dl_TE, bool accumulate) {
  for_each_row(tokens, experts, [=] MOELAB_HD(Team team, Index t) {
    const T* l = logits_TE + t * experts;
    T* dl = dl_TE + t * experts;
    const T lse = lse_T[t];
    const T slope = dy * static_cast<T>(2 * weight_T[t]) * lse;
    if (!accumulate) team.each(experts, [=](Index e) { dl[e] = T(0); });
    if (weight_T[t] == 0) return;
    team.each(experts, [=](Index e) { dl[e] += slope * fast_exp(l[e] - lse); });
  });
}

template void weighted_score_rows(Index, Index, const float*, const double*, const std::int32_t*,
                                  double*);
template void weighted_score_rows(Index, Index, const double*, const double*, const std::int32_t*,
                                  double*);
template void weighted_score_rows_backward(Index, Index, float, const double*, const std::int32_t*,
                                           float*, bool);
template void weighted_score_rows_backward(Index, Index, double, const double*, const std::int32_t*,
                                           double*, bool);
template void lse_square_rows(Index, Index, const float*, const double*, float*, double*);
template void lse_square_rows(Index, Index, const double*, const double*, double*, double*);
template void lse_square_rows_backward(Index, Index, float, const float*, const float*,
                                       const double*, float*, bool);
template void lse_square_rows_backward(Index, Index, double, const double*, const double*,
                                       const double*, double*, bool);

}  // namespace moelab::MOELAB_KERNELS
