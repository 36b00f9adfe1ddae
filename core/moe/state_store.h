// Named state of a MoE layer's components that outlives a step: biases, averages, counters. Saved
// in checkpoints under global names, never cast, the same on every rank. f32 runs keep f32 reals,
// f64 runs f64; counters are i64.
#pragma once
#include <map>
#include <string>

#include "core/backend/backend.h"

namespace moelab {

class StateStore {
 public:
  explicit StateStore(std::string prefix) : prefix_(std::move(prefix)) {}
  // The tensor called `name`, created as zeros on first use. Later calls must agree in dtype and
  // shape.
  Tensor& get(const Backend& backend, const std::string& name, DType dtype, Shape shape);
  const std::map<std::string, Tensor>& all() const { return tensors_; }  // by full name
  const std::string& prefix() const { return prefix_; }                  // "model.layers.3.mlp"

 private:
  std::string prefix_;
  std::map<std::string, Tensor> tensors_;
};

}  // namespace moelab
