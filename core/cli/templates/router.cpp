// What `moelab new router NAME` writes.
#include "core/cli/templates.h"

namespace moelab {
namespace {

constexpr const char* kComponent =
    R"file(// @name@: top-k softmax routing at a temperature; low ones sharpen the combine weights.
// T tokens, H hidden, E experts, P pair slots.
#include "core/autograd/functions.h"
#include "core/moe/router.h"

namespace moelab {
namespace {

class @Name@ final : public Router {
 public:
  struct Params {
    std::int64_t k = 2;
    double temperature = 1.0;
    void describe(ParamVisitor& v) {
      v("k", k, "experts chosen per token", at_least(1));
      v("temperature", temperature, "divides the logits", greater_than(0));
    }
    void check(const Facts& facts, Checker& c) const {
      if (k > facts.experts) c.error("k", "is more than the layer's ", facts.experts, " experts");
    }
    Traits traits() const {
      Traits traits;
      traits.k = k;
      return traits;
    }
    std::string formula() const {
      return str("logits l = W x / ", exact(temperature), "; choose the ", k,
                 " largest; weights = softmax over the chosen");
    }
  };
  @Name@(const Params& params, const Context& context)
      : params_(params),
        experts_(context.experts),
        dtype_(context.dtype),
        weight_EH_(make_parameter(context.backend, dtype_, context.name + ".weight",
                                  {experts_, context.hidden},
                                  {Init::Kind::normal, context.init_std}, true)) {}

  Routing route(Tape& tape, const RouterInput& input) override {
    Routing out;
    const Variable l_TE = gating(tape, input.x_TH, tape.leaf(weight_EH_), nullptr, dtype_);
    out.logits_TE = scale(tape, l_TE, 1.0 / params_.temperature);
    RouterRule rule;
    rule.k = params_.k;
    RouterScores chosen =
        router_select(tape, out.logits_TE, rule, input.bias_E, input.tokens.valid_T,
                      input.forced ? &input.forced->expert_P : nullptr, dtype_);
    out.weight_P = chosen.weight_P;
    out.scores_TE = chosen.scores_TE;
    out.plan = uniform_plan(input.tokens.count(), experts_, params_.k, std::move(chosen.expert_P));
    return out;
  }
  void parameters(const std::function<void(Parameter&)>& visit) override { visit(weight_EH_); }
  Parameter* gate() override { return &weight_EH_; }

 private:
  Params params_;
  Index experts_;
  DType dtype_;
  Parameter weight_EH_;
};

const Register<Router, @Name@> registered{"@name@", "top-k softmax at a temperature"};

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
  expect(layer.router.choose("@name@"), "it is registered");
  with_ranks(1, 1, [&](RankContext& ranks) {
    LayerBench bench(layer, {}, ranks);
    const RoutingPlan plan = *bench.forward().record->plan;
    expect(plan.tokens == bench.tokens().count(), "it plans for every token");
    for (Index t = 0; t < plan.tokens; ++t)
      expect(plan.end(t) - plan.begin(t) == 2, "a token has k = 2 experts");
  });
  return failures == 0 ? 0 : 1;
}
)file";

const RegisterTemplate registered{{"router", "routers", kComponent, kTest}};

}  // namespace
}  // namespace moelab
