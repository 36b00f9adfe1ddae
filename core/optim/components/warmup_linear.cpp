// Linear warm-up, then a straight line down to min_ratio of the peak.
#include "core/optim/warmup.h"

namespace moelab {
namespace {

class WarmupLinear final : public DecaySchedule {
 public:
  using Params = DecayParams;
  WarmupLinear(const Params& params, const Context& context) : DecaySchedule(params, context) {}

 private:
  double left(Index step) const override { return 1 - progress(step); }
};

const Register<Schedule, WarmupLinear> registered{
    "warmup_linear", "linear warm-up, then a straight line down to a part of the peak"};

}  // namespace
}  // namespace moelab
