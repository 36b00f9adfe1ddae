// Keys (rotated) and values of the positions generated so far, one pair of tensors a layer. B rows
// of equal length, C positions reserved, M key/value heads of width D.
#pragma once
#include <vector>

#include "core/backend/backend.h"

namespace moelab {

class KvCache {
 public:
  KvCache(const Backend& backend, DType dtype, Index layers, Index rows, Index capacity,
          Index kv_heads, Index head_dim);
  Index length() const { return length_; }  // positions that every layer holds
  Index capacity() const { return capacity_; }
  // Stores k, v of `count` new positions a row (k_TMD with T = B·count) behind length().
  void append(Index layer, const Tensor& k, const Tensor& v, Index count);
  // [B, C, M·D]
  const Tensor& keys(Index layer) const { return keys_[static_cast<std::size_t>(layer)]; }
  const Tensor& values(Index layer) const { return values_[static_cast<std::size_t>(layer)]; }
  void advance(Index count) { length_ += count; }  // once all layers appended

 private:
  Index rows_, capacity_, width_, length_ = 0;
  std::vector<Tensor> keys_, values_;
};

}  // namespace moelab
