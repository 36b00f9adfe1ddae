// What `moelab new norm NAME` writes.
#include "core/cli/templates.h"

namespace moelab {
namespace {

constexpr const char* kComponent =
    R"file(// @name@: x / sqrt(mean(x^2) + eps), without a trained gain. D width.
#include "core/model/norm.h"

namespace moelab {
namespace {

class @Name@ final : public Norm {
 public:
  struct Params {
    void describe(ParamVisitor&) {}
    Traits traits() const { return {0}; }
    std::string formula() const { return "x / sqrt(mean(x^2) + eps)"; }
  };
  @Name@(const Params&, const Context& context)
      : eps_(context.eps), one_D_(context.backend.zeros(context.dtype, {context.width})) {
    dispatch_real(one_D_.dtype(), "@name@", [&](auto zero) {
      for (auto& value : one_D_.span<decltype(zero)>()) value = 1;
    });
  }
  Variable forward(Tape& tape, const Variable& x_TD) override {
    return rms_norm(tape, x_TD, tape.constant(one_D_), eps_);
  }
  void parameters(const std::function<void(Parameter&)>&) override {}

 private:
  double eps_;
  Tensor one_D_;
};

const Register<Norm, @Name@> registered{"@name@", "divides by the root of the mean square"};

}  // namespace
}  // namespace moelab
)file";

constexpr const char* kTest = R"file(// What @name@ promises beside the contracts.
#include <cmath>
#include <iostream>
#include <string>

#include "core/model/norm.h"

using namespace moelab;

int main() {
  int failures = 0;
  const auto expect = [&](bool kept, const std::string& promise) {
    if (kept) return;
    std::cerr << "@name@: broken: " << promise << "\n";
    ++failures;
  };
  Component<Norm> component;
  expect(component.choose("@name@"), "it is registered");
  const auto backend = Backend::cpu();
  const auto norm = component.make({*backend, DType::f64, 4, 1e-6, "norm"});
  const Tensor x_TD = backend->empty(DType::f64, {1, 4});
  for (Index i = 0; i < 4; ++i) x_TD.data<double>()[i] = static_cast<double>(3 * i - 5);
  Tape tape(*backend, Tape::Mode::forward);
  double squares = 0;
  const Variable y_TD = norm->forward(tape, tape.constant(x_TD));
  for (const double y : y_TD.value.span<double>()) squares += y * y;
  expect(std::abs(squares / 4 - 1) < 1e-6, "the mean square of its output is 1");
  return failures == 0 ? 0 : 1;
}
)file";

const RegisterTemplate registered{{"norm", "core/model/components", kComponent, kTest}};

}  // namespace
}  // namespace moelab
