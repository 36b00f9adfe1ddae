// Residual MoE: the routed experts correct a network that every token meets, both weighted by
// learned coefficients c = softmax(C x + b) of the token (PR-MoE, Rajbhandari et al. 2022).
#include "core/autograd/functions.h"
#include "experts/shared_mlp.h"

namespace moelab {
namespace {

class Residual final : public Shared {
 public:
  struct Params : SharedParams {
    Traits traits() const {
      return {[*this](Index hidden) {
        LayerCost out = cost(hidden);
        out += LayerCost::dense(2 * hidden + 2, 2 * hidden, static_cast<double>(hidden + 2));
        return out;
      }};
    }
    std::string formula() const {
      return str("c = softmax(C x + b); y = c_0 * routed + c_1 * ", network_text());
    }
  };
  Residual(const Params& params, const Context& context)
      : network_(params, context),
        weight_2H_(make_parameter(context.backend, context.dtype,
                                  context.name + ".coefficient.weight", {2, context.hidden},
                                  {Init::Kind::normal, context.init_std}, true)),
        bias_2_(make_parameter(context.backend, context.dtype, context.name + ".coefficient.bias",
                               {2}, {Init::Kind::zeros, 0}, false)) {}

  Variable forward(Tape& tape, const Variable& x_TH, const Variable& routed_TH,
                   const Tokens& tokens) override {
    const Variable bias = tape.leaf(bias_2_);
    const std::vector<Variable> c =
        token_weights(tape, linear(tape, x_TH, tape.leaf(weight_2H_), &bias), tokens.valid_T);
    return add(tape, scale_rows(tape, routed_TH, c[0]), network_.forward(tape, x_TH, c[1]));
  }
  void parameters(const std::function<void(Parameter&)>& visit) override {
    network_.parameters(visit);
    visit(weight_2H_);
    visit(bias_2_);
  }

 private:
  SharedMlp network_;
  Parameter weight_2H_, bias_2_;
};

const Register<Shared, Residual> registered{
    "residual", "routed experts and a network for every token, mixed by learned coefficients"};

}  // namespace
}  // namespace moelab
