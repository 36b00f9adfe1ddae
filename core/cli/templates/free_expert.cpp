// What `moelab new free_expert NAME` writes.
#include "core/cli/templates.h"

namespace moelab {
namespace {

constexpr const char* kComponent =
    R"file(// @name@: experts without a network that give a part of the token itself. T tokens, H hidden.
#include "core/autograd/functions.h"
#include "core/moe/free_expert.h"

namespace moelab {
namespace {

class @Name@ final : public FreeExpert {
 public:
  struct Params : FreeExpertParams {
    double factor = 0.5;
    void describe(ParamVisitor& v) {
      FreeExpertParams::describe(v);
      v("factor", factor, "multiplies the token");
    }
    Traits traits() const { return {count, 0}; }
    std::string formula() const { return str("expert(x) = ", exact(factor), " * x"); }
  };
  @Name@(const Params& params, const Context& context)
      : params_(params), first_(context.first) {}

  Variable forward(Tape& tape, const Variable& y_TH, const FreeInput& input) override {
    const Variable weight_T = input.weight_T(first_, params_.count);
    return add(tape, y_TH, scale(tape, scale_rows(tape, input.x_TH, weight_T), params_.factor));
  }

 private:
  Params params_;
  Index first_;
};

const Register<FreeExpert, @Name@> registered{"@name@", "gives a part of the token"};

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
  MoeParams layer;
  expect(layer.free_experts.add("free").choose("@name@"), "it is registered");
  with_ranks(1, 1, [&](RankContext& ranks) {
    const LayerRun run = LayerBench(layer, {}, ranks).forward();
    expect(run.record->experts == layer.num_experts + 1, "tokens may choose it");
    expect(run.record->routed_E.back() > 0, "some do");
  });
  return failures == 0 ? 0 : 1;
}
)file";

const RegisterTemplate registered{{"free_expert", "experts", kComponent, kTest}};

}  // namespace
}  // namespace moelab
