// Causal attention with grouped queries over B rows of L tokens: N query heads share M key/value
// heads of width D. Token i sees the tokens j ≤ i of its row that have its document id.
#pragma once
#include <cstdint>

#include "core/backend/backend.h"

namespace moelab {

template <class T>
struct AttentionArgs {
  Index batch = 0, length = 0, heads = 0, kv_heads = 0, head_dim = 0;
  T scale = T(1);
  const T *q = nullptr, *k = nullptr, *v = nullptr;  // [B·L, N·D], [B·L, M·D], [B·L, M·D]
  const std::int32_t* document = nullptr;            // [B·L]; null: one document a row
};

// Writes o [B·L, N·D] and lse [B·L, N], the log of each softmax's denominator.
template <class T>
void attention_forward(const Backend& backend, const AttentionArgs<T>& args, T* o, T* lse);

template <class T>
struct AttentionGrads {  // each (+)= if its flag is set; all are wanted
  T *dq = nullptr, *dk = nullptr, *dv = nullptr;
  bool add_q = false, add_k = false, add_v = false;
};
// One work item a (batch row, key/value head), which sums over its query heads in order.
template <class T>
void attention_backward(const Backend& backend, const AttentionArgs<T>& args, const T* o,
                        const T* lse, const T* do_, const AttentionGrads<T>& grads);

}  // namespace moelab
