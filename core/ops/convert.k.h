// Between real dtypes, element by element; with `accumulate` added to y, else written.
#pragma once
#include "core/backend/for_each.h"

namespace moelab::MOELAB_KERNELS {

template <class From, class To>
void convert(Index n, const From* x, bool accumulate, To* y);

}  // namespace moelab::MOELAB_KERNELS
