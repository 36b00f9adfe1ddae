#include "core/model/kv_cache.h"

#include <cstring>

namespace moelab {

KvCache::KvCache(const Backend& backend, DType dtype, Index layers, Index rows, Index capacity,
                 Index kv_heads, Index head_dim)
    : rows_(rows), capacity_(capacity), width_(kv_heads * head_dim) {
  for (Index layer = 0; layer < layers; ++layer) {
    keys_.push_back(backend.empty(dtype, {rows, capacity, width_}));
    values_.push_back(backend.empty(dtype, {rows, capacity, width_}));
  }
}

void KvCache::append(Index layer, const Tensor& k, const Tensor& v, Index count) {
  MOELAB_CHECK(length_ + count <= capacity_, length_, " + ", count, " positions of ", capacity_);
  const std::size_t row_bytes = static_cast<std::size_t>(count * width_) * size_of(k.dtype());
  const auto store = [&](const Tensor& from, const Tensor& into) {
    for (Index row = 0; row < rows_; ++row)
      std::memcpy(into[row].rows(length_, count).raw(), from.rows(row * count, count).raw(),
                  row_bytes);
  };
  store(k, keys_[static_cast<std::size_t>(layer)]);
  store(v, values_[static_cast<std::size_t>(layer)]);
}

}  // namespace moelab
