// What `moelab new activation NAME` writes.
#include "core/cli/templates.h"

namespace moelab {
namespace {

constexpr const char* kComponent = R"file(// @name@: x / (1 + |x|), with its slope.
#include <cmath>

#include "core/ops/activation_rows.h"
#include "registry/registry.h"

namespace moelab {
namespace {

struct Formula {
  static constexpr const char* kName = "@name@";
  template <class T>
  static cpu_kernels::ValueSlope<T> at(T x) {
    const T below = T(1) / (T(1) + std::abs(x));
    return {x * below, below * below};
  }
};

constexpr bool kGated = false;  // true: at(gate) times up
using @Name@ = FormulaActivation<Formula, kGated>;
const Register<Activation, @Name@> registered{"@name@", "x / (1 + |x|)"};

}  // namespace
}  // namespace moelab
)file";

constexpr const char* kTest = R"file(// What @name@ promises beside the contracts.
#include <cmath>
#include <iostream>
#include <string>

#include "core/ops/activation.h"

using namespace moelab;

int main() {
  int failures = 0;
  const auto expect = [&](bool kept, const std::string& promise) {
    if (kept) return;
    std::cerr << "@name@: broken: " << promise << "\n";
    ++failures;
  };
  Component<Activation> component;
  expect(component.choose("@name@"), "it is registered");
  const auto activation = component.make({});
  const auto value = [&](double x) {
    double a = 0;
    ActivationRows<double> rows;
    rows.rows = rows.width = 1;
    rows.h = &x;
    rows.a = &a;
    activation->forward(rows);
    return a;
  };
  expect(value(0) == 0 && value(1) == 0.5 && value(-3) == -0.75, "its values");
  for (const double x : {-2.5, -0.5, 0.3, 4.0}) {
    double slope = 0;
    const double one = 1, step = 1e-6;
    ActivationRows<double> rows;
    rows.rows = rows.width = 1;
    rows.h = &x;
    rows.da = &one;
    rows.dh = &slope;
    activation->backward(rows);
    const double expected = (value(x + step) - value(x - step)) / (2 * step);
    expect(std::abs(slope - expected) < 1e-8, "its slope is that of its values");
  }
  return failures == 0 ? 0 : 1;
}
)file";

const RegisterTemplate registered{{"activation", "core/ops/components", kComponent, kTest}};

}  // namespace
}  // namespace moelab
