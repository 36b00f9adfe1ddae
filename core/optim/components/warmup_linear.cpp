// Linear warm-up, then a straight line down to min_ratio of the peak.
#include "core/optim/warmup.h"

namespace moelab {
namespace {

class WarmupLinear final : public Schedule {
 public:
  struct Params {
    Warmup warmup;
    double min_ratio = 0.0;
    void describe(ParamVisitor& v) {
      warmup.describe(v);
      v("min_ratio", min_ratio, "the learning rate at the end, as a part of the peak",
        between(0, 1));
    }
    void check(const Facts& facts, Checker& c) const { warmup.check(facts, c); }
  };
  WarmupLinear(const Params& params, const Context& context)
      : params_(params), steps_(context.steps) {}
  double at(Index step) const override {
    const Warmup& warmup = params_.warmup;
    if (warmup.rising(step)) return warmup.risen(step);
    const double peak = warmup.learning_rate, low = peak * params_.min_ratio;
    return peak + (low - peak) * warmup.progress(step, steps_);
  }

 private:
  Params params_;
  Index steps_;
};

const Register<Schedule, WarmupLinear> registered{
    "warmup_linear", "linear warm-up, then a straight line down to a part of the peak"};

}  // namespace
}  // namespace moelab
