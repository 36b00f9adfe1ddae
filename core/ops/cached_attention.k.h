// Attention of a few new positions over cached keys and values: generation, no gradient.
#pragma once
#include <cstdint>

namespace moelab::MOELAB_KERNELS {

template <class T>
struct CachedAttention {
  std::int64_t rows = 0, count = 0;  // B rows, new positions a row
  std::int64_t length = 0;           // cached positions before them
  std::int64_t capacity = 0;         // C
  std::int64_t heads = 0, kv_heads = 0, head_dim = 0;
  T scale = T(0);
  const T* q = nullptr;  // [B·count, N·D]
  const T* k = nullptr;  // [B, C, M·D], the new positions included
  const T* v = nullptr;  // [B, C, M·D]
  T* score = nullptr;    // scratch [B·count·N, C]
  T* o = nullptr;        // out [B·count, N·D]
};

// New position i of a row sees its cached positions and new ones up to i: all of one document.
template <class T>
void cached_attention(const CachedAttention<T>& args);

}  // namespace moelab::MOELAB_KERNELS
