// The sums behind balancing losses and their gradients. T tokens, E experts, G scope instances.
#pragma once
#include "core/backend/for_each.h"

namespace moelab::MOELAB_KERNELS {

// row_T[t] = Σ_e c[instance_T[t], e] · s[t, e] in f64; 0 where the instance is −1.
template <class T>
void weighted_score_rows(Index tokens, Index experts, const T* scores_TE, const double* c_GE,
                         const std::int32_t* instance_T, double* row_T);
// ds[t, e] (+)= dy · c[instance_T[t], e].
template <class T>
void weighted_score_rows_backward(Index tokens, Index experts, T dy, const double* c_GE,
                                  const std::int32_t* instance_T, T* ds_TE, bool accumulate);

// lse_T[t] = log Σ_e exp(l[t, e]), row_T[t] = weight_T[t] · lse². Rows of weight 0 are not read.
template <class T>
void lse_square_rows(Index tokens, Index experts, const T* logits_TE, const double* weight_T,
                     T* lse_T, double* row_T);
// dl[t, e] (+)= dy · weight_T[t] · 2 · lse_t · exp(l[t, e] − lse_t).
template <class T>
void lse_square_rows_backward(Index tokens, Index experts, T dy, const T* logits_TE, const T* lse_T,
                              const double* weight_T, T* dl_TE, bool accumulate);

}  // namespace moelab::MOELAB_KERNELS
