// Combine weights of (token, expert) pairs: gathered into row order, renormalised after dropping.
// T tokens, P pair slots, R rows.
#pragma once
#include "core/backend/for_each.h"

namespace moelab::MOELAB_KERNELS {

// y_R[r] = w_P[slot_R[r]], 0 where the slot is −1.
template <class T>
void gather_slots(Index rows, const Index* slot_R, const T* w_P, T* y_R);
// dw_P[slot_R[r]] += dy_R[r]; no slot twice.
template <class T>
void scatter_slots(Index rows, const Index* slot_R, const T* dy_R, T* dw_P);

// y[p] = w[p] / max(Σ kept slots of the token, floor), 0 where dropped or where the sum is 0.
template <class T>
void renormalize_rows(Index tokens, const Index* offset_T1, const std::uint8_t* kept_P, T floor,
                      const T* w_P, T* y_P);
// dw[p] (+)= (dy[p] − Σ dy·y) / Σ kept; dy[p] / floor where the sum is less.
template <class T>
void renormalize_rows_backward(Index tokens, const Index* offset_T1, const std::uint8_t* kept_P,
                               T floor, const T* w_P, const T* dy_P, T* dw_P, bool accumulate);

}  // namespace moelab::MOELAB_KERNELS
