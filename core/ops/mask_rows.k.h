// y_t = x_t where valid_T is not 0, else 0. T rows of width D; x may be y.
#pragma once
#include "core/backend/for_each.h"

namespace moelab::MOELAB_KERNELS {

template <class T>
void mask_rows(Index rows, Index width, const T* x_TD, const std::uint8_t* valid_T, T* y_TD);

}  // namespace moelab::MOELAB_KERNELS
