// Warm-up, stable, decay (Hu et al. 2024, MiniCPM): the peak until the last part of the run, then a
// straight line down.
#include "core/optim/warmup.h"

namespace moelab {
namespace {

class Wsd final : public DecaySchedule {
 public:
  struct Params : DecayParams {
    double decay_ratio = 0.2;
    void describe(ParamVisitor& v) {
      DecayParams::describe(v);
      v("decay_ratio", decay_ratio, "the part of all steps that decays, at the end", between(0, 1));
    }
  };
  Wsd(const Params& params, const Context& context)
      : DecaySchedule(params, context),
        decay_steps_(static_cast<double>(context.steps) * params.decay_ratio) {}

 private:
  double left(Index step) const override {
    const auto ahead = static_cast<double>(steps() - step);
    return decay_steps_ > 0 ? std::clamp(ahead / decay_steps_, 0.0, 1.0) : 1.0;
  }

  double decay_steps_;
};

const Register<Schedule, Wsd> registered{
    "wsd", "warm-up, stable, decay: the peak until the last part of the run"};

}  // namespace
}  // namespace moelab
