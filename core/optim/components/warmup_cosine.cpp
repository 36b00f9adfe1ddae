// Linear warm-up, then half a cosine down to min_ratio of the peak (Loshchilov & Hutter 2017).
#include <cmath>
#include <numbers>

#include "core/optim/warmup.h"

namespace moelab {
namespace {

class WarmupCosine final : public Schedule {
 public:
  struct Params {
    Warmup warmup;
    double min_ratio = 0.1;
    void describe(ParamVisitor& v) {
      warmup.describe(v);
      v("min_ratio", min_ratio, "the learning rate at the end, as a part of the peak",
        between(0, 1));
    }
    void check(const Facts& facts, Checker& c) const { warmup.check(facts, c); }
  };
  WarmupCosine(const Params& params, const Context& context)
      : params_(params), steps_(context.steps) {}
  double at(Index step) const override {
    const Warmup& warmup = params_.warmup;
    if (warmup.rising(step)) return warmup.risen(step);
    const double peak = warmup.learning_rate, low = peak * params_.min_ratio;
    const double turn = std::cos(std::numbers::pi * warmup.progress(step, steps_));
    return low + (peak - low) / 2 * (1 + turn);
  }

 private:
  Params params_;
  Index steps_;
};

const Register<Schedule, WarmupCosine> registered{
    "warmup_cosine", "linear warm-up, then half a cosine down to a part of the peak"};

}  // namespace
}  // namespace moelab
