// grouped: all local experts in one fused op, work spread over (expert, row tile). R rows, H
// hidden.
#include "core/moe/expert_mlp.h"

namespace moelab {
namespace {

class Grouped final : public Experts {
 public:
  using Params = ExpertParams;

  Grouped(const Params& params, const Context& context)
      : activation_(params.activation.make({})),
        weight_at_(params.weight_at),
        weights_(params, {context.backend, context.dtype, context.hidden, context.first_expert,
                          context.local_experts, Placement::expert, context.name, context.init_std,
                          context.output_init_std}) {}

  Variable forward(Tape& tape, const RowView& rows, const Variable& weight_R) override {
    return expert_mlp(tape, rows, weight_R, weights_.on(tape, *activation_), weight_at_);
  }
  void parameters(const std::function<void(Parameter&)>& visit) override {
    weights_.parameters(visit);
  }
  Parameter* up() override { return &weights_.up(); }

 private:
  std::unique_ptr<Activation> activation_;
  WeightAt weight_at_;
  MlpWeights weights_;
};

const Register<Experts, Grouped> registered{"grouped",
                                            "all experts of a rank in one grouped matrix product"};

}  // namespace
}  // namespace moelab
