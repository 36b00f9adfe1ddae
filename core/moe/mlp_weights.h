// The weights of e feed-forward networks as the fused parameters that grouped_mlp reads, with one
// checkpoint piece a network and projection. What dense layers and all experts share. H hidden, F
// width, G = F, or 2F when gated.
#pragma once
#include <memory>
#include <string>

#include "core/autograd/functions.h"
#include "core/moe/layer_cost.h"

namespace moelab {

// What a recipe says about a feed-forward network.
struct MlpParams {
  std::int64_t width = 128;
  Component<Activation> activation{"swiglu"};
  bool bias = false;
  void describe(ParamVisitor& v);
  bool gated() const { return activation.traits().gated; }
  std::string network_text() const;  // "down(silu(gate) · up)", for formulas
};
// Of one network on tokens of width `hidden`; its input is not counted as saved.
LayerCost mlp_cost(const MlpParams& params, Index hidden);

class MlpWeights {
 public:
  struct Spec {
    Backend& backend;
    DType dtype;
    Index hidden = 0;
    Index first = 0, count = 1;  // experts [first, first + count), by global id
    Placement placement = Placement::expert;
    // "model.layers.3.mlp.experts": pieces "<name>.7.up_proj.weight"; placement dense has one
    // network, "model.layers.3.mlp": piece "<name>.up_proj.weight".
    std::string name;
    double init_std = 0.02, output_init_std = 0.02;
  };
  MlpWeights(const MlpParams& params, const Spec& spec);
  // The weights as leaves of `tape`, ready for grouped_mlp. The activation must outlive the tape.
  GroupedMlp on(Tape& tape, const Activation& activation);
  void parameters(const std::function<void(Parameter&)>& visit);
  Parameter& up() { return up_; }

 private:
  bool gated_ = true;
  Parameter up_, down_;            // [e, G, H], [e, H, F]
  Parameter up_bias_, down_bias_;  // [e, G], [e, H]; undefined without bias
};

}  // namespace moelab
