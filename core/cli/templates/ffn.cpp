// What `moelab new ffn NAME` writes.
#include "core/cli/templates.h"

namespace moelab {
namespace {

constexpr const char* kComponent =
    R"file(// @name@: a plain feed-forward network whose output is scaled by a constant. T tokens, H hidden.
#include "core/moe/ffn.h"
#include "core/moe/mlp_weights.h"

namespace moelab {
namespace {

class @Name@ final : public Ffn {
 public:
  struct Params : MlpParams {
    double output_scale = 1.0;
    void describe(ParamVisitor& v) {
      MlpParams::describe(v);
      v("output_scale", output_scale, "multiplies what the network adds to the stream");
    }
    Traits traits() const {
      Traits traits;
      traits.width = width;
      traits.cost = [*this](Index hidden, Index) { return mlp_cost(*this, hidden); };
      return traits;
    }
    std::string formula() const { return str("y = ", exact(output_scale), " * ", network_text()); }
  };
  @Name@(const Params& params, const Context& context)
      : output_scale_(params.output_scale),
        activation_(params.activation.make({})),
        weights_(params,
                 {*context.ranks.backend, context.dtype, context.hidden, 0, 1, Placement::dense,
                  context.name, context.init_std, context.output_init_std}) {}

  FfnOutput forward(Tape& tape, const FfnInput& input) override {
    const auto offset =
        std::make_shared<std::vector<Index>>(std::vector<Index>{0, input.x_TH.value.size(0)});
    FfnOutput out;
    out.y_TH = scale(
        tape,
        grouped_mlp(tape, input.x_TH, nullptr, offset, nullptr, weights_.on(tape, *activation_)),
        output_scale_);
    return out;
  }
  void parameters(const std::function<void(Parameter&)>& visit) override {
    weights_.parameters(visit);
  }

 private:
  double output_scale_;
  std::unique_ptr<Activation> activation_;
  MlpWeights weights_;
};

const Register<Ffn, @Name@> registered{"@name@", "a network with a scaled output"};

}  // namespace
}  // namespace moelab
)file";

constexpr const char* kTest = R"file(// What @name@ promises beside the contracts.
#include <cmath>
#include <iostream>
#include <string>

#include "core/lab/layer_bench.h"
#include "core/moe/ffn.h"

using namespace moelab;

int main() {
  int failures = 0;
  const auto expect = [&](bool kept, const std::string& promise) {
    if (kept) return;
    std::cerr << "@name@: broken: " << promise << "\n";
    ++failures;
  };
  Component<Ffn> component;
  expect(component.choose("@name@"), "it is registered");
  with_ranks(1, 1, [&](RankContext& ranks) {
    const MoeLayer::Context context{ranks, DType::f64, 4, 0, 0.02, 0.02, 0.02, "test"};
    const auto ffn = component.make(context);
    int parameters = 0;
    ffn->parameters([&](Parameter& parameter) {
      initialize(parameter, 1);
      ++parameters;
    });
    expect(parameters == 2, "it has an up and a down projection");
    Tape tape(*ranks.backend, Tape::Mode::forward);
    const Tensor x_TH = ranks.backend->zeros(DType::f64, {3, 4});
    const FfnOutput out =
        ffn->forward(tape, {tape.constant(x_TH), Tokens{}, Moment{}, StepFacts{}});
    expect(same_bits(out.y_TH.value, x_TH), "zero gives zero");
  });
  return failures == 0 ? 0 : 1;
}
)file";

const RegisterTemplate registered{{"ffn", "core/moe/components", kComponent, kTest}};

}  // namespace
}  // namespace moelab
