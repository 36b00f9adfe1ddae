// A dense row-major tensor: a shape over shared storage. Copying a Tensor shares the elements.
// There is no allocation policy here: an allocator (core/backend/arena.h) makes the Storage.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/check.h"
#include "core/base/rng.h"
#include "core/tensor/dtype.h"

namespace moelab {

class Shape {  // up to 4 axes, int64 each
 public:
  static constexpr int kMaxRank = 4;
  Shape() = default;
  Shape(std::initializer_list<Index> sizes);
  int rank() const { return rank_; }
  Index operator[](int axis) const { return sizes_[axis]; }
  Index numel() const;
  Shape with_rows(Index count) const;  // the first axis replaced
  Shape row() const;                   // the first axis removed
  bool operator==(const Shape&) const = default;
  std::string text() const;  // "[2, 3]"

 private:
  Index sizes_[kMaxRank] = {0, 0, 0, 0};
  int rank_ = 0;
};

class Storage {  // a block of bytes; its destructor gives it back to whoever made it
 public:
  virtual ~Storage() = default;
  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 protected:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

class Tensor {
 public:
  Tensor() = default;
  Tensor(std::shared_ptr<Storage> storage, std::size_t offset_bytes, DType dtype, Shape shape);

  bool defined() const { return storage_ != nullptr; }
  explicit operator bool() const { return defined(); }
  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  int rank() const { return shape_.rank(); }
  Index size(int axis) const { return shape_[axis]; }
  Index numel() const { return shape_.numel(); }
  std::size_t bytes() const { return static_cast<std::size_t>(numel()) * size_of(dtype_); }
  std::byte* raw() const { return storage_ ? storage_->data() + offset_ : nullptr; }

  // The elements; T must be the dtype's type. Constness of the Tensor says nothing of the elements:
  // functions take `const Tensor&` for what they read and for what they fill.
  template <class T>
  T* data() const {
    MOELAB_CHECK(DTypeOf<T>::value == dtype_, "asked for ", name_of(DTypeOf<T>::value), " of a ",
                 name_of(dtype_), " tensor ", shape_.text());
    return reinterpret_cast<T*>(raw());
  }
  template <class T>
  std::span<T> span() const {
    return {data<T>(), static_cast<std::size_t>(numel())};
  }
  Tensor view(Shape shape) const;               // same elements, other shape of equal numel
  Tensor rows(Index begin, Index count) const;  // [begin, begin + count) of the first axis
  Tensor operator[](Index i) const;             // one index of the first axis, rank − 1

 private:
  std::shared_ptr<Storage> storage_;
  std::size_t offset_ = 0;
  DType dtype_ = DType::f32;
  Shape shape_;
};

// Calls f(T{}) with T = float or double; anything else is an error naming `what` and the dtype.
template <class F>
decltype(auto) dispatch_real(DType dtype, const char* what, F&& f) {
  if (dtype == DType::f32) return f(float{});
  MOELAB_CHECK(dtype == DType::f64, what, " has no kernel for ", name_of(dtype), " on the CPU");
  return f(double{});
}

}  // namespace moelab
