// Where tensors live and what computes on them. One Backend a rank. The CPU's is the only one a run
// can name today; asking for "cuda" says what is missing.
#pragma once
#include <memory>
#include <string>

#include "core/backend/arena.h"
#include "core/tensor/tensor.h"

namespace moelab {

class Backend {
 public:
  static std::shared_ptr<Backend> cpu();
  static std::shared_ptr<Backend> create(
      const std::string& device);  // "cpu" | "cuda"; Error(resources)

  Tensor empty(DType dtype, Shape shape) const;  // contents undefined
  Tensor zeros(DType dtype, Shape shape) const;
  Tensor empty_like(const Tensor& t) const { return empty(t.dtype(), t.shape()); }
  Arena& arena() const { return *arena_; }

 private:
  explicit Backend(std::shared_ptr<Arena> arena) : arena_(std::move(arena)) {}
  std::shared_ptr<Arena> arena_;
};

void fill_zero(const Tensor& t);
void copy(const Tensor& from, const Tensor& to);  // same dtype and numel

}  // namespace moelab
