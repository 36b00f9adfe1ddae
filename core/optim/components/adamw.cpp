// AdamW: Adam with decoupled weight decay (Loshchilov & Hutter 2019, arXiv 1711.05101, Algorithm 2,
// with the decay scaled by the learning rate, as torch.optim.AdamW).
#include "core/optim/adamw.k.h"

#include <cmath>

#include "core/optim/name_rules.h"
#include "core/optim/optimizer.h"

namespace moelab {
namespace {

class AdamW final : public Optimizer {
 public:
  struct Params {
    double beta1 = 0.9, beta2 = 0.95, eps = 1e-8;
    double weight_decay = 0.1;
    bool decay_all = false;
    std::vector<std::string> learning_rate_factors, weight_decay_factors;
    void describe(ParamVisitor& v) {
      v("beta1", beta1, "decay of the running mean of gradients", from_below(0, 1));
      v("beta2", beta2, "decay of the running mean of squared gradients", from_below(0, 1));
      v("eps", eps, "added to the root of the mean square", greater_than(0));
      v("weight_decay", weight_decay, "decoupled decay per unit of learning rate", at_least(0));
      v("decay_all", decay_all, "decay norms and biases too");
      v("learning_rate_factors", learning_rate_factors,
        "rules 'pattern = factor' on parameter names, first match counts: times the learning rate");
      v("weight_decay_factors", weight_decay_factors,
        "rules 'pattern = factor' on parameter names, first match counts: times weight_decay");
    }
    void check(const Facts&, Checker& c) const {
      check_name_rules(learning_rate_factors, "learning_rate_factors", c);
      check_name_rules(weight_decay_factors, "weight_decay_factors", c);
    }
    Traits traits() const { return {2}; }
  };

  AdamW(const Params& params, const Context& context) : params_(params) {
    const NameRules rates(params.learning_rate_factors), decays(params.weight_decay_factors);
    for (Parameter* parameter : context.parameters) {
      const bool decays_at_all = parameter->decay || params.decay_all;
      items_.push_back({parameter,
                        context.backend.zeros(parameter->value.dtype(), parameter->value.shape()),
                        context.backend.zeros(parameter->value.dtype(), parameter->value.shape()),
                        rates.factor(parameter->name),
                        decays_at_all ? params.weight_decay * decays.factor(parameter->name) : 0});
    }
  }

  void step(Index step, double learning_rate, double gradient_scale) override {
    const double correction1 = 1 - std::pow(params_.beta1, static_cast<double>(step));
    const double correction2 = 1 - std::pow(params_.beta2, static_cast<double>(step));
    for (const Item& item : items_) {
      const double rate = learning_rate * item.rate_factor;
      dispatch_real(item.parameter->value.dtype(), "adamw", [&](auto zero) {
        using T = decltype(zero);
        cpu_kernels::AdamWArgs<T> args;
        args.n = item.parameter->value.numel();
        args.value = item.parameter->value.data<T>();
        args.first = item.first.data<T>();
        args.second = item.second.data<T>();
        args.grad = item.parameter->grad.data<T>();
        args.grad_scale = T(gradient_scale);
        args.beta1 = T(params_.beta1);
        args.beta2 = T(params_.beta2);
        args.step_size = T(rate / correction1);
        args.second_scale = T(1 / correction2);
        args.keep = T(1 - rate * item.decay);
        args.eps = T(params_.eps);
        cpu_kernels::adamw(args);
      });
    }
  }

  std::map<std::string, Tensor> state(const Parameter& parameter) override {
    for (const Item& item : items_)
      if (item.parameter == &parameter)
        return {{"exp_avg", item.first}, {"exp_avg_sq", item.second}};
    return {};
  }

 private:
  struct Item {
    Parameter* parameter;
    Tensor first, second;
    double rate_factor, decay;
  };
  Params params_;
  std::vector<Item> items_;
};

const Register<Optimizer, AdamW> registered{"adamw", "Adam with decoupled weight decay"};

}  // namespace
}  // namespace moelab
