// layer_norm: (x − mean) / sqrt(variance + eps) · w + b. (Ba et al. 2016)
#include "core/model/norm.h"

namespace moelab {
namespace {

class LayerNorm final : public Norm {
 public:
  struct Params {
    bool bias = true;
    void describe(ParamVisitor& v) { v("bias", bias, "adds a trained offset"); }
    Norm::Traits traits() const { return {bias ? 2 : 1}; }
    std::string formula() const {
      return str("(x − mean) / sqrt(variance + eps) · w", bias ? " + b" : "");
    }
  };

  LayerNorm(const Params& params, const Context& context)
      : eps_(context.eps),
        weight_(make_parameter(context.backend, context.dtype, context.name + ".weight",
                               {context.width}, {Init::Kind::ones, 0}, false)) {
    if (params.bias)
      bias_ = make_parameter(context.backend, context.dtype, context.name + ".bias",
                             {context.width}, {Init::Kind::zeros, 0}, false);
  }

  Variable forward(Tape& tape, const Variable& x_TD) override {
    const Variable weight = tape.leaf(weight_);
    if (!bias_.value) return layer_norm(tape, x_TD, weight, nullptr, eps_);
    const Variable bias = tape.leaf(bias_);
    return layer_norm(tape, x_TD, weight, &bias, eps_);
  }
  void parameters(const std::function<void(Parameter&)>& visit) override {
    visit(weight_);
    if (bias_.value) visit(bias_);
  }

 private:
  double eps_;
  Parameter weight_, bias_;  // [D]
};

const Register<Norm, LayerNorm> registered{"layer_norm",
                                           "subtracts the mean, divides by the deviation"};

}  // namespace
}  // namespace moelab
