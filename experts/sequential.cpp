// sequential: one expert after another, each with weights of its own: the reference that `grouped`
// is compared with. Same checkpoint names, same values, equal within rounding. R rows, H hidden.
#include "core/moe/expert_mlp.h"

namespace moelab {
namespace {

class Sequential final : public Experts {
 public:
  using Params = ExpertParams;

  Sequential(const Params& params, const Context& context)
      : activation_(params.activation.make({})), weight_at_(params.weight_at) {
    for (Index i = 0; i < context.local_experts; ++i)
      weights_.emplace_back(
          params, MlpWeights::Spec{context.backend, context.dtype, context.hidden,
                                   context.first_expert + i, 1, Placement::expert, context.name,
                                   context.init_std, context.output_init_std});
  }

  Variable forward(Tape& tape, const RowView& rows, const Variable& weight_R) override {
    std::vector<Variable> parts;
    for (std::size_t e = 0; e < weights_.size(); ++e) {
      const Index begin = (*rows.offset_e1)[e], end = (*rows.offset_e1)[e + 1];
      const auto row = std::make_shared<std::vector<std::int32_t>>(rows.row_R->begin() + begin,
                                                                   rows.row_R->begin() + end);
      const auto slot = std::make_shared<std::vector<Index>>();
      for (Index r = begin; r < end; ++r) slot->push_back(r);
      const auto offset = std::make_shared<std::vector<Index>>(std::vector<Index>{0, end - begin});
      const Variable weight = gather_weights(tape, weight_R, slot);
      parts.push_back(expert_mlp(tape, {rows.source_SH, row, offset}, weight,
                                 weights_[e].on(tape, *activation_), weight_at_));
    }
    return concat_rows(tape, parts);
  }
  void parameters(const std::function<void(Parameter&)>& visit) override {
    for (MlpWeights& weights : weights_) weights.parameters(visit);
  }

 private:
  std::unique_ptr<Activation> activation_;
  WeightAt weight_at_;
  std::vector<MlpWeights> weights_;
};

const Register<Experts, Sequential> registered{"sequential",
                                               "one expert after another; the reference"};

}  // namespace
}  // namespace moelab
