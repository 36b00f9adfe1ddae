// The network of shared experts: one feed-forward network that every token meets. T tokens, H
// hidden.
#pragma once
#include "core/moe/mlp_weights.h"
#include "core/moe/shared.h"

namespace moelab {

struct SharedParams : MlpParams {  // several shared experts are one of their widths' sum
  LayerCost cost(Index hidden) const { return mlp_cost(*this, hidden); }
};

class SharedMlp {
 public:
  SharedMlp(const MlpParams& params, const Shared::Context& context)
      : activation_(params.activation.make({})),
        weights_(params,
                 {context.backend, context.dtype, context.hidden, 0, 1, Placement::dense,
                  context.name + ".shared_experts", context.init_std, context.output_init_std}) {}
  // weight_T · network(x_t); weights of padding are 0.
  Variable forward(Tape& tape, const Variable& x_TH, const Variable& weight_T);
  void parameters(const std::function<void(Parameter&)>& visit) { weights_.parameters(visit); }

 private:
  std::unique_ptr<Activation> activation_;
  MlpWeights weights_;
};

}  // namespace moelab
