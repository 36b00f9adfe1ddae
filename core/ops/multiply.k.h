// y = x ⊙ factor; with `accumulate` added to y, else written.
#pragma once
#include "core/backend/for_each.h"

namespace moelab::MOELAB_KERNELS {

template <class T>
void multiply(Index n, const T* x, const T* factor, bool accumulate, T* y);

}  // namespace moelab::MOELAB_KERNELS
