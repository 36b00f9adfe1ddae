// What `moelab new dropper NAME` writes.
#include "core/cli/templates.h"

namespace moelab {
namespace {

constexpr const char* kComponent =
    R"file(// @name@: drops the pairs whose weight is small beside the token's largest, in training and
// evaluation.
#include "core/moe/dropper.h"

namespace moelab {
namespace {

class @Name@ final : public Dropper {
 public:
  struct Params {
    double least = 0.2;
    void describe(ParamVisitor& v) {
      v("least", least, "part of the token's largest weight that a pair needs", between(0, 1));
    }
    Traits traits() const {
      Traits traits;
      traits.drops = true;
      return traits;
    }
    std::string formula() const {
      return str("a pair is dropped if its weight < ", exact(least), " * the token's largest");
    }
  };
  @Name@(const Params& params, const Context&) : params_(params) {}

  void drop(RoutingPlan& plan, const Tensor& weight_P, const DropInput& input) override {
    if (input.moment.phase == Phase::inference) return;
    dispatch_real(weight_P.dtype(), "@name@", [&](auto zero) {
      const auto weight = weight_P.span<decltype(zero)>();
      for (Index t = 0; t < plan.tokens; ++t) {
        double largest = 0;
        const auto begin = static_cast<std::size_t>(plan.begin(t));
        const auto end = static_cast<std::size_t>(plan.end(t));
        for (std::size_t p = begin; p < end; ++p)
          largest = std::max(largest, static_cast<double>(weight[p]));
        for (std::size_t p = begin; p < end; ++p)
          if (plan.fate_P[p] == PairFate::kept &&
              static_cast<double>(weight[p]) < params_.least * largest)
            plan.fate_P[p] = PairFate::capacity;
      }
    });
  }

 private:
  Params params_;
};

const Register<Dropper, @Name@> registered{"@name@", "drops pairs of small weight"};

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
  expect(layer.dropper.choose("@name@"), "it is registered");
  with_ranks(1, 1, [&](RankContext& ranks) {
    LayerBench bench(layer, {}, ranks);
    const LayerRun run = bench.forward();
    expect(run.record->dropped_capacity > 0, "it drops something");
    const RoutingPlan& plan = *run.record->plan;
    for (Index t = 0; t < plan.tokens; ++t)
      expect(plan.fate_P[static_cast<std::size_t>(plan.begin(t))] == PairFate::kept,
             "a token's first choice is kept");
  });
  return failures == 0 ? 0 : 1;
}
)file";

const RegisterTemplate registered{{"dropper", "balancers", kComponent, kTest}};

}  // namespace
}  // namespace moelab
