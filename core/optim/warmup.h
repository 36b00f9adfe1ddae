// What the schedules share: a linear warm-up to the peak learning rate, the checks on it, and a
// fall to a part of the peak.
#pragma once
#include <algorithm>

#include "core/optim/optimizer.h"

namespace moelab {

struct Warmup {
  double learning_rate = 3e-3;
  std::int64_t warmup_steps = 100;
  void describe(ParamVisitor& v) {
    v("learning_rate", learning_rate, "the peak", greater_than(0));
    v("warmup_steps", warmup_steps, "steps of linear rise: step s has (s + 1)/warmup_steps of it",
      at_least(0));
  }
  void check(const Schedule::Facts& facts, Checker& c) const {
    if (facts.steps > 0 && warmup_steps >= facts.steps)
      c.warning("warmup_steps", "is not less than the run's ", facts.steps,
                " steps: the learning rate never reaches its peak; lower warmup_steps");
  }
  bool rising(Index step) const { return step < warmup_steps; }
  double risen(Index step) const {
    return learning_rate * static_cast<double>(step + 1) / static_cast<double>(warmup_steps);
  }
  // How far step lies between the end of the warm-up (0) and the end of the run (1).
  double progress(Index step, Index steps) const {
    if (steps <= warmup_steps) return 1.0;
    const double done = static_cast<double>(step - warmup_steps);
    return std::min(1.0, done / static_cast<double>(steps - warmup_steps));
  }
};

// What falls from the peak after the warm-up, down to min_ratio of it.
struct DecayParams {
  Warmup warmup;
  double min_ratio = 0.0;
  void describe(ParamVisitor& v) {
    warmup.describe(v);
    v("min_ratio", min_ratio, "the learning rate at the end, as a part of the peak", between(0, 1));
  }
  void check(const Schedule::Facts& facts, Checker& c) const { warmup.check(facts, c); }
};

class DecaySchedule : public Schedule {
 public:
  DecaySchedule(const DecayParams& params, const Context& context)
      : params_(params), steps_(context.steps) {}
  double at(Index step) const final {
    const Warmup& warmup = params_.warmup;
    if (warmup.rising(step)) return warmup.risen(step);
    const double low = warmup.learning_rate * params_.min_ratio;
    return low + (warmup.learning_rate - low) * left(step);
  }

 protected:
  // The part of the fall that is still ahead: 1 at the peak, 0 at the end.
  virtual double left(Index step) const = 0;
  double progress(Index step) const { return params_.warmup.progress(step, steps_); }
  Index steps() const { return steps_; }

 private:
  DecayParams params_;
  Index steps_;
};

}  // namespace moelab
