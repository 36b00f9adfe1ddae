// Rows of a table by id. T rows, V vocabulary, D width; negative ids stand for zero rows.
#pragma once
#include "core/backend/for_each.h"

namespace moelab::MOELAB_KERNELS {

template <class T>
void embedding_forward(Index rows, Index width, const T* w_VD, const std::int32_t* id_T, T* y_TD);
// dw_VD[id_t] += dy_t in token order, without atomics: each column has one owner.
template <class T>
void embedding_backward(Index rows, Index vocabulary, Index width, const T* dy_TD,
                        const std::int32_t* id_T, bool accumulate, T* dw_VD);

}  // namespace moelab::MOELAB_KERNELS
