// Norm: what stands before attention, before the ffn and before the head.
#pragma once
#include "core/autograd/functions.h"

namespace moelab {

class Norm : public Module {
 public:
  static constexpr std::string_view family = "norm";
  struct Facts {};
  struct Traits {
    int vectors = 1;  // trained vectors of its width
  };
  struct Context {
    Backend& backend;
    DType dtype;
    Index width = 0;
    double eps = 1e-6;
    std::string name;  // "model.layers.0.input_layernorm"
  };
  virtual Variable forward(Tape&, const Variable& x_TD) = 0;
};

}  // namespace moelab
