// What `moelab new experts NAME` writes.
#include "core/cli/templates.h"

namespace moelab {
namespace {

constexpr const char* kComponent =
    R"file(// @name@: feed-forward networks whose input is scaled by a constant. R rows, H hidden.
#include "core/moe/experts.h"
#include "core/moe/mlp_weights.h"

namespace moelab {
namespace {

class @Name@ final : public Experts {
 public:
  struct Params : MlpParams {
    double input_scale = 1.0;
    void describe(ParamVisitor& v) {
      MlpParams::describe(v);
      v("input_scale", input_scale, "multiplies the rows before the up projection");
    }
    Traits traits() const {
      Traits traits;
      traits.width = width;
      traits.gated = gated();
      traits.bias = bias;
      return traits;
    }
    std::string formula() const {
      return str("y = weight * ", network_text(), " of ", exact(input_scale), " * x");
    }
  };
  @Name@(const Params& params, const Context& context)
      : input_scale_(params.input_scale),
        activation_(params.activation.make({})),
        weights_(params, {context.backend, context.dtype, context.hidden, context.first_expert,
                          context.local_experts, Placement::expert, context.name, context.init_std,
                          context.output_init_std}) {}

  Variable forward(Tape& tape, const RowView& rows, const Variable& weight_R) override {
    const Variable x_SH = scale(tape, rows.source_SH, input_scale_);
    return grouped_mlp(tape, x_SH, rows.row_R, rows.offset_e1, &weight_R,
                       weights_.on(tape, *activation_));
  }
  void parameters(const std::function<void(Parameter&)>& visit) override {
    weights_.parameters(visit);
  }

 private:
  double input_scale_;
  std::unique_ptr<Activation> activation_;
  MlpWeights weights_;
};

const Register<Experts, @Name@> registered{"@name@", "networks with a scaled input"};

}  // namespace
}  // namespace moelab
)file";

constexpr const char* kTest = R"file(// What @name@ promises beside the contracts.
#include <cmath>
#include <iostream>
#include <string>

#include "core/lab/layer_bench.h"

using namespace moelab;

int main() {
  int failures = 0;
  const auto expect = [&](bool kept, const std::string& promise) {
    if (kept) return;
    std::cerr << "@name@: broken: " << promise << "\n";
    ++failures;
  };
  MoeParams layer, plain;
  expect(layer.experts.choose("@name@"), "it is registered");
  with_ranks(1, 1, [&](RankContext& ranks) {
    const Tensor y_TH = LayerBench(layer, {}, ranks).forward().y_TH;
    expect(same_bits(y_TH, LayerBench(plain, {}, ranks).forward().y_TH),
           "at input_scale = 1 outputs are those of grouped");
  });
  return failures == 0 ? 0 : 1;
}
)file";

const RegisterTemplate registered{{"experts", "experts", kComponent, kTest}};

}  // namespace
}  // namespace moelab
