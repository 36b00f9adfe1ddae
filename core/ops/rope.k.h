// Rotary position embedding in halves: element j of a head pairs with j + D/2 and turns by
// position · theta^(−2j/D). (Su et al. 2021; the layout of GPT-NeoX and Hugging Face)
// T tokens, N heads of D, P rows of the table.
#pragma once
#include <cstdint>

#include "core/backend/for_each.h"

namespace moelab::MOELAB_KERNELS {

// table_PD: cos in the first D/2 columns, sin in the others, computed in f64. Row p is position
// position_P[p], or p itself if position_P is null.
template <class T>
void rope_table(Index rows, Index head_dim, double theta, const std::int32_t* position_P,
                T* table_PD);

// y_TND = x_TND turned by table row table_row_T[t] (null: row t), times +1 or −1 (direction) in the
// angle; y may be x.
template <class T>
void rope_turn(Index tokens, Index heads, Index head_dim, const T* x, const T* table_PD,
               const std::int32_t* table_row_T, T direction, T* y);

}  // namespace moelab::MOELAB_KERNELS
