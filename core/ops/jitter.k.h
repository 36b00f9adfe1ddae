// Counter-based relative noise: element i draws number first + i of the stream (key, salt) of an
// Rng.
#pragma once
#include "core/backend/for_each.h"

namespace moelab::MOELAB_KERNELS {

// factor = U(1 - eps, 1 + eps).
template <class T>
void draw_jitter(Index n, double eps, std::uint64_t key, std::uint64_t salt, std::uint64_t first,
                 T* factor);

}  // namespace moelab::MOELAB_KERNELS
