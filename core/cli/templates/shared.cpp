// What `moelab new shared NAME` writes.
#include "core/cli/templates.h"

namespace moelab {
namespace {

constexpr const char* kComponent =
    R"file(// @name@: a network for every token beside the routed experts, scaled by a constant. T tokens, H
// hidden.
#include "core/autograd/functions.h"
#include "core/moe/mlp_weights.h"
#include "core/moe/shared.h"

namespace moelab {
namespace {

class @Name@ final : public Shared {
 public:
  struct Params : MlpParams {
    double share = 1.0;
    void describe(ParamVisitor& v) {
      MlpParams::describe(v);
      v("share", share, "multiplies the network's output");
    }
    Traits traits() const {
      return {[*this](Index hidden) { return mlp_cost(*this, hidden); }};
    }
    std::string formula() const {
      return str("y = routed + ", exact(share), " * ", network_text());
    }
  };
  @Name@(const Params& params, const Context& context)
      : share_(params.share),
        activation_(params.activation.make({})),
        weights_(params,
                 {context.backend, context.dtype, context.hidden, 0, 1, Placement::dense,
                  context.name + ".shared_experts", context.init_std, context.output_init_std}) {}

  Variable forward(Tape& tape, const Variable& x_TH, const Variable& routed_TH,
                   const Tokens& tokens) override {
    const auto offset = std::make_shared<std::vector<Index>>(std::vector<Index>{0, tokens.count()});
    const Variable y_TH =
        grouped_mlp(tape, x_TH, nullptr, offset, nullptr, weights_.on(tape, *activation_));
    // The output of padding stays exactly 0.
    return add(tape, routed_TH, mask_rows(tape, scale(tape, y_TH, share_), tokens.valid_T));
  }
  void parameters(const std::function<void(Parameter&)>& visit) override {
    weights_.parameters(visit);
  }

 private:
  double share_;
  std::unique_ptr<Activation> activation_;
  MlpWeights weights_;
};

const Register<Shared, @Name@> registered{"@name@", "a network for every token, scaled"};

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
  expect(layer.shared.choose("@name@") && plain.shared.choose("plain"), "it is registered");
  with_ranks(1, 1, [&](RankContext& ranks) {
    const Tensor y_TH = LayerBench(layer, {}, ranks).forward().y_TH;
    expect(same_bits(y_TH, LayerBench(plain, {}, ranks).forward().y_TH),
           "at share = 1 outputs are those of plain");
  });
  return failures == 0 ? 0 : 1;
}
)file";

const RegisterTemplate registered{{"shared", "experts", kComponent, kTest}};

}  // namespace
}  // namespace moelab
