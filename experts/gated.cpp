// A shared expert behind a gate: y += sigmoid(g · x) · network(x) (Qwen1.5-MoE, 2024). The gate is
// multiplied where the network is narrow, before its down projection.
#include "core/autograd/functions.h"
#include "experts/shared_mlp.h"

namespace moelab {
namespace {

class Gated final : public Shared {
 public:
  struct Params : SharedParams {
    Traits traits() const {
      return {[*this](Index hidden) {
        LayerCost out = cost(hidden);
        out += LayerCost::dense(hidden, hidden, 1);
        return out;
      }};
    }
    std::string formula() const { return str("y = routed + sigmoid(g . x) * ", network_text()); }
  };
  Gated(const Params& params, const Context& context)
      : network_(params, context),
        gate_1H_(make_parameter(context.backend, context.dtype,
                                context.name + ".shared_expert_gate.weight", {1, context.hidden},
                                {Init::Kind::normal, context.init_std}, true)) {}

  Variable forward(Tape& tape, const Variable& x_TH, const Variable& routed_TH,
                   const Tokens& tokens) override {
    const Variable weight_T =
        token_weights(tape, linear(tape, x_TH, tape.leaf(gate_1H_)), tokens.valid_T).front();
    return add(tape, routed_TH, network_.forward(tape, x_TH, weight_T));
  }
  void parameters(const std::function<void(Parameter&)>& visit) override {
    network_.parameters(visit);
    visit(gate_1H_);
  }

 private:
  SharedMlp network_;
  Parameter gate_1H_;
};

const Register<Shared, Gated> registered{"gated",
                                         "a network for every token, times the sigmoid of a gate"};

}  // namespace
}  // namespace moelab
