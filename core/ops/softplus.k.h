// y = log(1 + e^x) + offset.
#pragma once
#include "core/backend/for_each.h"

namespace moelab::MOELAB_KERNELS {

template <class T>
void softplus(Index n, const T* x, T offset, T* y);
// dx = dy · σ(x); with `accumulate` added to dx, else written.
template <class T>
void softplus_backward(Index n, const T* x, const T* dy, bool accumulate, T* dx);

}  // namespace moelab::MOELAB_KERNELS
