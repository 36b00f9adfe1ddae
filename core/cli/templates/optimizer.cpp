// What `moelab new optimizer NAME` writes.
#include "core/cli/templates.h"

namespace moelab {
namespace {

constexpr const char* kComponent =
    R"file(// @name@: gradient descent with momentum and decoupled weight decay.
#include "core/optim/optimizer.h"

namespace moelab {
namespace {

class @Name@ final : public Optimizer {
 public:
  struct Params {
    double momentum = 0.9, weight_decay = 0.0;
    void describe(ParamVisitor& v) {
      v("momentum", momentum, "decay of the running sum of gradients", from_below(0, 1));
      v("weight_decay", weight_decay, "per unit of learning rate; norms and biases have none",
        at_least(0));
    }
    Traits traits() const { return {1}; }
    std::string formula() const {
      return str("m = ", exact(momentum), " m + g; w -= rate (m + ", exact(weight_decay), " w)");
    }
  };
  @Name@(const Params& params, const Context& context)
      : params_(params), parameters_(context.parameters) {
    for (const Parameter* p : parameters_)
      momentum_[p] = context.backend.zeros(p->value.dtype(), p->value.shape());
  }

  void step(Index, double learning_rate, double gradient_scale) override {
    for (const Parameter* p : parameters_)
      dispatch_real(p->value.dtype(), "@name@", [&](auto zero) {
        using T = decltype(zero);
        const auto w = p->value.span<T>(), g = p->grad.span<T>(), m = momentum_.at(p).span<T>();
        const T rate = T(learning_rate), decay = T(p->decay ? params_.weight_decay : 0);
        for (std::size_t i = 0; i < w.size(); ++i) {
          m[i] = T(params_.momentum) * m[i] + T(gradient_scale) * g[i];
          w[i] -= rate * (m[i] + decay * w[i]);
        }
      });
  }
  std::map<std::string, Tensor> state(const Parameter& parameter) override {
    return {{"momentum", momentum_.at(&parameter)}};
  }

 private:
  Params params_;
  std::vector<Parameter*> parameters_;
  std::map<const Parameter*, Tensor> momentum_;
};

const Register<Optimizer, @Name@> registered{"@name@", "gradient descent with momentum"};

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
  Component<Optimizer> component;
  expect(component.choose("@name@"), "it is registered");
  const auto backend = Backend::cpu();
  Parameter p = make_parameter(*backend, DType::f64, "p", {2}, {Init::Kind::ones, 0}, true);
  initialize(p, 1);
  p.grad = backend->zeros(DType::f64, {2});
  p.grad.data<double>()[0] = 4;
  const auto optimizer = component.make({*backend, {&p}, {"p"}});
  for (Index step = 1; step <= 2; ++step) optimizer->step(step, 0.1, 0.5);
  const double first = 0.1 * 2, second = 0.1 * (0.9 * 2 + 2);
  expect(std::abs(p.value.data<double>()[0] - (1 - first - second)) < 1e-12, "two steps downhill");
  expect(p.value.data<double>()[1] == 1, "no gradient, no change");
  expect(static_cast<int>(optimizer->state(p).size()) == component.traits().state_tensors,
         "its traits tell its state");
  return failures == 0 ? 0 : 1;
}
)file";

const RegisterTemplate registered{{"optimizer", "core/optim/components", kComponent, kTest}};

}  // namespace
}  // namespace moelab
