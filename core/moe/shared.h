// Shared: what stands beside the routed experts and meets every token (DeepSeekMoE's shared expert,
// PR-MoE's residual network). It reads the full hidden state, latent experts or not, and is held by
// every rank. T tokens, H hidden.
#pragma once
#include <memory>
#include <string>

#include "core/autograd/tape.h"
#include "core/moe/layer_cost.h"
#include "core/moe/tokens.h"
#include "registry/component.h"

namespace moelab {

class Shared : public Module {
 public:
  static constexpr std::string_view family = "shared";
  struct Facts {
    Index hidden = 0;
  };
  struct Traits {
    std::function<LayerCost(Index hidden)> cost{};  // unset: nothing
  };
  struct Context {
    Backend& backend;
    DType dtype;
    Index hidden = 0;
    std::string name;  // "model.layers.3.mlp"
    double init_std = 0.02, output_init_std = 0.02;
  };
  // The layer's output, from its input and what the routed experts made of it. Padding stays
  // exactly 0.
  virtual Variable forward(Tape&, const Variable& x_TH, const Variable& routed_TH,
                           const Tokens&) = 0;
};

}  // namespace moelab
