// Attention of a few new positions over cached keys and values: generation, no gradient.
#pragma once
#include "core/backend/for_each.h"

namespace moelab::MOELAB_KERNELS {

template <class T>
struct CachedAttention {
  Index rows = 0, count = 0;  // B rows, new positions a row
  Index length = 0;           // cached positions before them
  Index capacity = 0;         // C
  Index heads = 0, kv_heads = 0, head_dim = 0;
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
