// dense: the plain feed-forward network. T tokens, H hidden.
#include "core/moe/ffn.h"
#include "core/moe/mlp_weights.h"

namespace moelab {
namespace {

class DenseFfn final : public Ffn {
 public:
  struct Params : MlpParams {
    Ffn::Traits traits() const {
      Ffn::Traits traits;
      traits.width = width;
      traits.cost = [*this](Index hidden, Index) {
        LayerCost cost = mlp_cost(*this, hidden);
        cost.saved += static_cast<double>(hidden);
        return cost;
      };
      return traits;
    }
    std::string formula() const { return "y = " + network_text(); }
  };

  DenseFfn(const Params& params, const Context& context)
      : activation_(params.activation.make({})),
        weights_(params,
                 {*context.ranks.backend, context.dtype, context.hidden, 0, 1, Placement::dense,
                  context.name, context.init_std, context.output_init_std}) {}

  FfnOutput forward(Tape& tape, const FfnInput& input) override {
    const auto offset =
        std::make_shared<std::vector<Index>>(std::vector<Index>{0, input.x_TH.value.size(0)});
    FfnOutput out;
    out.y_TH =
        grouped_mlp(tape, input.x_TH, nullptr, offset, nullptr, weights_.on(tape, *activation_));
    return out;
  }
  void parameters(const std::function<void(Parameter&)>& visit) override {
    weights_.parameters(visit);
  }

 private:
  std::unique_ptr<Activation> activation_;
  MlpWeights weights_;
};

const Register<Ffn, DenseFfn> registered{"dense", "one feed-forward network for every token"};

}  // namespace
}  // namespace moelab
