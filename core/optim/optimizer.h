// Optimizer and learning-rate schedule. The learning rate is a function of the step alone.
#pragma once
#include <functional>
#include <map>
#include <span>
#include <string>

#include "core/autograd/parameter.h"
#include "registry/component.h"

namespace moelab {

class Optimizer {
 public:
  static constexpr std::string_view family = "optimizer";
  struct Facts {};
  struct Traits {
    int state_tensors = 2;  // elements of state per element of parameter, for explain
  };
  struct Context {
    Backend& backend;
    std::vector<Parameter*> parameters;
    // Of every piece of the model, those on other ranks too; rules that match none are refused.
    std::vector<std::string> names;
  };
  virtual ~Optimizer() = default;
  // One update of every parameter from its gradient times `gradient_scale` (clipping). step is
  // 1-based.
  virtual void step(Index step, double learning_rate, double gradient_scale) = 0;
  // State tensors of value's shape per parameter, for checkpoints: {"exp_avg": t, "exp_avg_sq": t}.
  virtual std::map<std::string, Tensor> state(const Parameter& parameter) = 0;
};

class Schedule {
 public:
  static constexpr std::string_view family = "schedule";
  struct Facts {
    Index steps = 0;
  };
  struct Traits {};
  struct Context {
    Index steps = 0;  // of the whole run
  };
  virtual ~Schedule() = default;
  virtual double at(Index step) const = 0;  // learning rate of step 0 … steps−1
};

}  // namespace moelab
