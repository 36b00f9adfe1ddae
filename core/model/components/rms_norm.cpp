// rms_norm: x / sqrt(mean(x²) + eps) · w. (Zhang & Sennrich 2019)
#include "core/model/norm.h"

namespace moelab {
namespace {

class RmsNorm final : public Norm {
 public:
  struct Params {
    void describe(ParamVisitor&) {}
    std::string formula() const { return "x / sqrt(mean(x²) + eps) · w"; }
  };

  RmsNorm(const Params&, const Context& context)
      : eps_(context.eps),
        weight_(make_parameter(context.backend, context.dtype, context.name + ".weight",
                               {context.width}, {Init::Kind::ones, 0}, false)) {}

  Variable forward(Tape& tape, const Variable& x_TD) override {
    return rms_norm(tape, x_TD, tape.leaf(weight_), eps_);
  }
  void parameters(const std::function<void(Parameter&)>& visit) override { visit(weight_); }

 private:
  double eps_;
  Parameter weight_;  // [D]
};

const Register<Norm, RmsNorm> registered{"rms_norm", "divides by the root of the mean square"};

}  // namespace
}  // namespace moelab
