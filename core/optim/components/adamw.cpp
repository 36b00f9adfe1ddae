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
        "rules 'pattern = factor' on names as in checkpoints (* any text, ? one character), first "
        "match counts: times the learning rate");
      v("weight_decay_factors", weight_decay_factors,
        "rules 'pattern = factor' on names as in checkpoints (* any text, ? one character), first "
        "match counts: times weight_decay");
    }
    void check(const Facts&, Checker& c) const {
      check_name_rules(learning_rate_factors, "learning_rate_factors", c);
      check_name_rules(weight_decay_factors, "weight_decay_factors", c);
    }
    Traits traits() const { return {2}; }
  };

  AdamW(const Params& params, const Context& context) : params_(params) {
    const NameRules rates(params.learning_rate_factors), decays(params.weight_decay_factors);
    rates.require_matches(context.names, "optimizer.learning_rate_factors");
    decays.require_matches(context.names, "optimizer.weight_decay_factors");
    for (Parameter* parameter : context.parameters) {
      const Tensor& value = parameter->value;
      const bool decays_at_all = parameter->decay || params.decay_all;
      Item item{parameter,
                context.backend.zeros(value.dtype(), value.shape()),
                context.backend.zeros(value.dtype(), value.shape()),
                {}};
      for (const Piece& piece : parameter->pieces)
        item.add({offset_of(piece, value), piece.value.numel(), rates.factor(piece.name),
                  decays_at_all ? params.weight_decay * decays.factor(piece.name) : 0});
      items_.push_back(std::move(item));
    }
  }

  void step(Index step, double learning_rate, double gradient_scale) override {
    const double correction1 = 1 - std::pow(params_.beta1, static_cast<double>(step));
    const double correction2 = 1 - std::pow(params_.beta2, static_cast<double>(step));
    for (const Item& item : items_)
      dispatch_real(item.parameter->value.dtype(), "adamw", [&](auto zero) {
        using T = decltype(zero);
        cpu_kernels::AdamWArgs<T> args;
        args.grad_scale = T(gradient_scale);
        args.beta1 = T(params_.beta1);
        args.beta2 = T(params_.beta2);
        args.second_scale = T(1 / correction2);
        args.eps = T(params_.eps);
        for (const Range& range : item.ranges) {
          const double rate = learning_rate * range.rate_factor;
          args.n = range.count;
          args.value = item.parameter->value.data<T>() + range.begin;
          args.first = item.first.data<T>() + range.begin;
          args.second = item.second.data<T>() + range.begin;
          args.grad = item.parameter->grad.data<T>() + range.begin;
          args.step_size = T(rate / correction1);
          args.keep = T(1 - rate * range.decay);
          cpu_kernels::adamw(args);
        }
      });
  }

  std::map<std::string, Tensor> state(const Parameter& parameter) override {
    for (const Item& item : items_)
      if (item.parameter == &parameter)
        return {{"exp_avg", item.first}, {"exp_avg_sq", item.second}};
    return {};
  }

 private:
  static Index offset_of(const Piece& piece, const Tensor& value) {
    return static_cast<Index>(piece.value.raw() - value.raw()) /
           static_cast<Index>(size_of(value.dtype()));
  }
  struct Range {  // elements of a parameter that are treated alike: one or several pieces
    Index begin, count;
    double rate_factor, decay;
  };
  struct Item {
    Parameter* parameter;
    Tensor first, second;
    std::vector<Range> ranges;

    void add(const Range& next) {
      Range* last = ranges.empty() ? nullptr : &ranges.back();
      if (last && last->begin + last->count == next.begin &&
          last->rate_factor == next.rate_factor && last->decay == next.decay)
        last->count += next.count;
      else
        ranges.push_back(next);
    }
  };
  Params params_;
  std::vector<Item> items_;
};

const Register<Optimizer, AdamW> registered{"adamw", "Adam with decoupled weight decay"};

}  // namespace
}  // namespace moelab
