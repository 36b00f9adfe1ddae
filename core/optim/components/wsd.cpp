// Warm-up, stable, decay (Hu et al. 2024, MiniCPM): the peak until the last part of the run, then a
// straight line down.
#include "core/optim/warmup.h"

namespace moelab {
namespace {

class Wsd final : public Schedule {
 public:
  struct Params {
    Warmup warmup;
    double decay_ratio = 0.2, min_ratio = 0.0;
    void describe(ParamVisitor& v) {
      warmup.describe(v);
      v("decay_ratio", decay_ratio, "the part of all steps that decays, at the end", between(0, 1));
      v("min_ratio", min_ratio, "the learning rate at the end, as a part of the peak",
        between(0, 1));
    }
    void check(const Facts& facts, Checker& c) const { warmup.check(facts, c); }
  };
  Wsd(const Params& params, const Context& context)
      : params_(params),
        steps_(static_cast<double>(context.steps)),
        decay_steps_(steps_ * params.decay_ratio) {}
  double at(Index step) const override {
    const Warmup& warmup = params_.warmup;
    if (warmup.rising(step)) return warmup.risen(step);
    const double peak = warmup.learning_rate, low = peak * params_.min_ratio;
    const double into = static_cast<double>(step) - (steps_ - decay_steps_);
    if (into <= 0) return peak;
    return peak + (low - peak) * std::min(1.0, into / decay_steps_);
  }

 private:
  Params params_;
  double steps_, decay_steps_;
};

const Register<Schedule, Wsd> registered{
    "wsd", "warm-up, stable, decay: the peak until the last part of the run"};

}  // namespace
}  // namespace moelab
