// Counter-based dropout: element i draws number first + i of the stream (key, salt) of an Rng.
#pragma once
#include "core/backend/for_each.h"

namespace moelab::MOELAB_KERNELS {

struct DropoutRule {
  std::uint64_t key = 0, salt = 0, first = 0;
  std::uint64_t dropped_below = 0;  // p · 2⁵³, against the 53 bits of Rng::uniform
};

// y = x · keep · factor, or y += with accumulate; x may be y. Its own backward on gradients.
template <class T>
void dropout(Index n, const T* x, const DropoutRule& rule, T factor, bool accumulate, T* y);

}  // namespace moelab::MOELAB_KERNELS
