// Elementwise kernels that gradients are made of. With `accumulate` a kernel adds to y, else it
// writes y; x may be y.
#pragma once
#include "core/backend/for_each.h"

namespace moelab::MOELAB_KERNELS {

template <class T>
void fill(Index n, T value, bool accumulate, T* y);  // y = value
template <class T>
void add_scaled(Index n, T factor, const T* x, bool accumulate, T* y);  // y = factor·x
template <class T>
void sum_of(Index n, const T* a, const T* b, T* y);  // y = a + b

}  // namespace moelab::MOELAB_KERNELS
