// Experts that normalise their input themselves: each row is divided by its root mean square (Zhang
// & Sennrich 2019), so that no expert depends on how large the residual stream has grown. A gain
// would be redundant: the up projection holds it. R rows, H hidden.
#include <algorithm>

#include "core/autograd/functions.h"
#include "core/moe/experts.h"
#include "core/moe/mlp_weights.h"

namespace moelab {
namespace {

class Normed final : public Experts {
 public:
  struct Params : MlpParams {
    double epsilon = 1e-6;
    void describe(ParamVisitor& v) {
      MlpParams::describe(v);
      v("epsilon", epsilon, "added to the mean square", greater_than(0));
    }
    Traits traits() const { return {width, gated(), bias}; }
    std::string formula() const {
      return str("n = x / sqrt(mean(x^2) + ", exact(epsilon), "); y = weight * ", network_text(),
                 " of n");
    }
  };
  Normed(const Params& params, const Context& context)
      : epsilon_(params.epsilon),
        activation_(params.activation.make({})),
        weights_(params, {context.backend, context.dtype, context.hidden, context.first_expert,
                          context.local_experts, Placement::expert, context.name, context.init_std,
                          context.output_init_std}),
        one_H_(context.backend.zeros(context.dtype, {context.hidden})) {
    dispatch_real(one_H_.dtype(), "normed", [&](auto zero) {
      std::ranges::fill(one_H_.span<decltype(zero)>(), decltype(zero){1});
    });
  }

  Variable forward(Tape& tape, const RowView& rows, const Variable& weight_R) override {
    const Variable x_RH = gather_rows(tape, rows.source_SH, rows.row_R);
    const Variable n_RH = rms_norm(tape, x_RH, tape.constant(one_H_), epsilon_);
    return grouped_mlp(tape, n_RH, nullptr, rows.offset_e1, &weight_R,
                       weights_.on(tape, *activation_));
  }
  void parameters(const std::function<void(Parameter&)>& visit) override {
    weights_.parameters(visit);
  }

 private:
  double epsilon_;
  std::unique_ptr<Activation> activation_;
  MlpWeights weights_;
  Tensor one_H_;
};

const Register<Experts, Normed> registered{"normed", "networks that normalise their own input"};

}  // namespace
}  // namespace moelab
