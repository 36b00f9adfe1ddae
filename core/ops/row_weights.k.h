// One weight a token: from logits, as a factor of rows, as a sum of pair weights. T tokens, N
// logits, D width, P pair slots.
#pragma once
#include "core/backend/for_each.h"

namespace moelab::MOELAB_KERNELS {

// w_NT[n, t] = softmax(l_TN[t])[n], for N = 1 sigmoid(l_TN[t]); 0 where valid_T is 0.
template <class T>
void token_weights(Index tokens, Index count, const T* l_TN, const std::uint8_t* valid_T, T* w_NT);
// dl[t, n] (+)= w_n · (dw_n − Σ_m dw_m · w_m), for N = 1 dw · w · (1 − w).
template <class T>
void token_weights_backward(Index tokens, Index count, const T* w_NT, const T* dw_NT,
                            bool accumulate, T* dl_TN);

// y_TD[t] = w_T[t] · x_TD[t], or += with accumulate.
template <class T>
void scale_rows(Index tokens, Index width, const T* x_TD, const T* w_T, bool accumulate, T* y_TD);
// dw_T[t] (+)= Σ_d dy · x.
template <class T>
void row_products(Index tokens, Index width, const T* dy_TD, const T* x_TD, bool accumulate,
                  T* dw_T);

// y_T[t] = Σ of w_P over the token's slots that are chosen, in slot order.
template <class T>
void sum_slots(Index tokens, const Index* offset_T1, const std::uint8_t* chosen_P, const T* w_P,
               T* y_T);
// dw_P[p] (+)= dy_T[t] where chosen.
template <class T>
void spread_slots(Index tokens, const Index* offset_T1, const std::uint8_t* chosen_P, const T* dy_T,
                  bool accumulate, T* dw_P);

}  // namespace moelab::MOELAB_KERNELS
