// Constant experts: each mixes the token with a vector of its own, a = softmax(W x), expert(x) =
// a_0 x
// + a_1 v (MoE++, Jin et al. 2024). T tokens, H hidden.
#include "core/autograd/functions.h"
#include "core/moe/free_expert.h"

namespace moelab {
namespace {

class Constant final : public FreeExpert {
 public:
  struct Params : FreeExpertParams {
    Traits traits() const { return {count, 3}; }
    std::string formula() const { return "a = softmax(W x); expert(x) = a_0 x + a_1 v"; }
  };
  Constant(const Params& params, const Context& context) : first_(context.first) {
    const Init init{Init::Kind::normal, context.init_std};
    for (Index i = 0; i < params.count; ++i) {
      const std::string name = str(context.name, ".", i);
      mix_2H_.push_back(make_parameter(context.backend, context.dtype, name + ".mix.weight",
                                       {2, context.hidden}, init, true));
      value_H1_.push_back(make_parameter(context.backend, context.dtype, name + ".value.weight",
                                         {context.hidden, 1}, init, true));
    }
  }

  Variable forward(Tape& tape, const Variable& y_TH, const FreeInput& input) override {
    Variable y = y_TH;
    const Index tokens = input.tokens.count();
    for (std::size_t i = 0; i < mix_2H_.size(); ++i) {
      const std::vector<Variable> a = token_weights(
          tape, linear(tape, input.x_TH, tape.leaf(mix_2H_[i])), input.tokens.valid_T);
      const Variable weight_T = input.weight_T(first_ + static_cast<Index>(i), 1);
      const auto weighted = [&](const Variable& part_T) {
        return scale_rows(tape, reshape(tape, part_T, {tokens, 1}), weight_T);
      };
      const Variable copied = scale_rows(tape, input.x_TH, reshape(tape, weighted(a[0]), {tokens}));
      y = add(tape, y, copied);
      y = add(tape, y, linear(tape, weighted(a[1]), tape.leaf(value_H1_[i])));
    }
    return y;
  }
  void parameters(const std::function<void(Parameter&)>& visit) override {
    for (std::size_t i = 0; i < mix_2H_.size(); ++i) {
      visit(mix_2H_[i]);
      visit(value_H1_[i]);
    }
  }

 private:
  Index first_;
  std::vector<Parameter> mix_2H_, value_H1_;
};

const Register<FreeExpert, Constant> registered{
    "constant", "mixes the token with a learned vector, each its own"};

}  // namespace
}  // namespace moelab
