// Ffn: what stands in a block's feed-forward slot: dense, moe. The layer pattern of a recipe names
// tables [ffn.<name>], each with its kind and its own components.
#pragma once
#include <span>

#include "core/moe/layer_cost.h"
#include "core/moe/moe_layer.h"

namespace moelab {

class Ffn : public Module {
 public:
  static constexpr std::string_view family = "ffn";
  static constexpr std::string_view selector = "kind";
  struct Facts {
    Index hidden = 0;
    Index rows_per_micro_batch = 0, length = 0, micro_batches = 1;
    Index rows_per_evaluation = 0;  // of a held-out batch
    Index ranks = 1, ep = 1, dp = 1;
    bool generates = false, evaluates = false;
  };
  struct Traits {  // for explain: of one layer
    bool moe = false, causal = true;
    bool evaluable = true;  // losses on held-out text mean what they say, or the recipe says so
    Index experts = 0, free_experts = 0;  // the latter are among the former
    Index width = 0;                      // F
    bool reads_previous_logits = false;   // of the MoE layer before
    std::string sums_layers;              // the balancer that takes all MoE layers as one; "": none
    // What the layer holds and does; `ep`: over how many ranks its experts are spread.
    std::function<LayerCost(Index hidden, Index ep)> cost{};
    std::vector<std::string> train_inference_gap;
  };
  using Context = MoeLayer::Context;
  virtual FfnOutput forward(Tape& tape, const FfnInput& input) = 0;
  virtual StateStore* state() { return nullptr; }
  virtual void after_step(const StepLoad&) {}
  virtual void begin_step() {}
  // The losses that see all MoE layers together; called once a micro-batch, on MoE layer after MoE
  // layer until one has some.
  virtual std::vector<LossTerm> pooled_losses(Tape&, std::span<const Routing>, const FfnInput&) {
    return {};
  }
};

}  // namespace moelab
