// What `moelab new schedule NAME` writes.
#include "core/cli/templates.h"

namespace moelab {
namespace {

constexpr const char* kComponent =
    R"file(// @name@: linear warm-up, then down with the inverse square root of the step.
#include <cmath>

#include "core/optim/warmup.h"

namespace moelab {
namespace {

class @Name@ final : public Schedule {
 public:
  struct Params {
    Warmup warmup;
    void describe(ParamVisitor& v) { warmup.describe(v); }
    void check(const Facts& facts, Checker& c) const { warmup.check(facts, c); }
    std::string formula() const { return "rate * sqrt(warmup_steps / (step + 1)) after warm-up"; }
  };
  @Name@(const Params& params, const Context&) : warmup_(params.warmup) {}
  double at(Index step) const override {
    if (warmup_.rising(step)) return warmup_.risen(step);
    const auto reached = static_cast<double>(std::max<std::int64_t>(1, warmup_.warmup_steps));
    return warmup_.learning_rate * std::sqrt(reached / static_cast<double>(step + 1));
  }

 private:
  Warmup warmup_;
};

const Register<Schedule, @Name@> registered{"@name@", "warm-up, then inverse square root"};

}  // namespace
}  // namespace moelab
)file";

constexpr const char* kTest = R"file(// What @name@ promises beside the contracts.
#include <cmath>
#include <iostream>
#include <string>

#include "core/optim/optimizer.h"

using namespace moelab;

int main() {
  int failures = 0;
  const auto expect = [&](bool kept, const std::string& promise) {
    if (kept) return;
    std::cerr << "@name@: broken: " << promise << "\n";
    ++failures;
  };
  Component<Schedule> component;
  expect(component.choose("@name@"), "it is registered");
  const auto schedule = component.make({1000});
  expect(std::abs(schedule->at(99) - 3e-3) < 1e-12, "the peak comes at the end of the warm-up");
  expect(std::abs(schedule->at(399) - 1.5e-3) < 1e-12, "four times the steps, half the rate");
  for (Index step = 1; step < 100; ++step)
    expect(schedule->at(step) > schedule->at(step - 1), "it rises in the warm-up");
  return failures == 0 ? 0 : 1;
}
)file";

const RegisterTemplate registered{{"schedule", "core/optim/components", kComponent, kTest}};

}  // namespace
}  // namespace moelab
