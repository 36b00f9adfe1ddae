// Linear warm-up, then half a cosine down to min_ratio of the peak (Loshchilov & Hutter 2017).
#include <cmath>
#include <numbers>

#include "core/optim/warmup.h"

namespace moelab {
namespace {

class WarmupCosine final : public DecaySchedule {
 public:
  struct Params : DecayParams {
    Params() { min_ratio = 0.1; }
  };
  WarmupCosine(const Params& params, const Context& context) : DecaySchedule(params, context) {}

 private:
  double left(Index step) const override {
    return (1 + std::cos(std::numbers::pi * progress(step))) / 2;
  }
};

const Register<Schedule, WarmupCosine> registered{
    "warmup_cosine", "linear warm-up, then half a cosine down to a part of the peak"};

}  // namespace
}  // namespace moelab
