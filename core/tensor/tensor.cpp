#include "core/tensor/tensor.h"

#include <algorithm>
#include <utility>

namespace moelab {

Shape::Shape(std::initializer_list<Index> sizes) : rank_(static_cast<int>(sizes.size())) {
  MOELAB_CHECK(sizes.size() <= kMaxRank, "rank ", sizes.size());
  int axis = 0;
  for (const Index size : sizes) {
    MOELAB_CHECK(size >= 0, "axis ", axis, " has size ", size);
    sizes_[axis++] = size;
  }
}

Index Shape::numel() const {
  Index n = 1;
  for (int axis = 0; axis < rank_; ++axis) n *= sizes_[axis];
  return n;
}

Shape Shape::with_rows(Index count) const {
  MOELAB_CHECK(rank_ >= 1 && count >= 0, "count ", count, " of ", text());
  Shape out = *this;
  out.sizes_[0] = count;
  return out;
}

Shape Shape::row() const {
  MOELAB_CHECK(rank_ >= 1);
  Shape out;
  out.rank_ = rank_ - 1;
  std::copy(sizes_ + 1, sizes_ + rank_, out.sizes_);
  return out;
}

std::string Shape::text() const {
  std::string out = "[";
  for (int axis = 0; axis < rank_; ++axis) out += (axis ? ", " : "") + std::to_string(sizes_[axis]);
  return out + "]";
}

Tensor::Tensor(std::shared_ptr<Storage> storage, std::size_t offset_bytes, DType dtype, Shape shape)
    : storage_(std::move(storage)), offset_(offset_bytes), dtype_(dtype), shape_(shape) {
  MOELAB_CHECK(storage_ != nullptr);
  MOELAB_CHECK(offset_ + bytes() <= storage_->bytes(), "offset ", offset_, " bytes ", bytes(),
               " storage ", storage_->bytes());
}

Tensor Tensor::view(Shape shape) const {
  MOELAB_CHECK(shape.numel() == numel(), shape.text(), " of ", shape_.text());
  return {storage_, offset_, dtype_, shape};
}

Tensor Tensor::rows(Index begin, Index count) const {
  MOELAB_CHECK(rank() >= 1 && begin >= 0 && count >= 0 && begin + count <= size(0), "rows ", begin,
               " + ", count, " of ", shape_.text());
  const auto row_bytes = static_cast<std::size_t>(shape_.row().numel()) * size_of(dtype_);
  return {storage_, offset_ + static_cast<std::size_t>(begin) * row_bytes, dtype_,
          shape_.with_rows(count)};
}

Tensor Tensor::operator[](Index i) const { return rows(i, 1).view(shape_.row()); }

}  // namespace moelab
