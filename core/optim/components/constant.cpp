// The same learning rate at every step after the warm-up.
#include "core/optim/warmup.h"

namespace moelab {
namespace {

class Constant final : public Schedule {
 public:
  struct Params {
    Warmup warmup{.warmup_steps = 0};
    void describe(ParamVisitor& v) { warmup.describe(v); }
    void check(const Facts& facts, Checker& c) const { warmup.check(facts, c); }
  };
  Constant(const Params& params, const Context&) : params_(params) {}
  double at(Index step) const override {
    const Warmup& warmup = params_.warmup;
    return warmup.rising(step) ? warmup.risen(step) : warmup.learning_rate;
  }

 private:
  Params params_;
};

const Register<Schedule, Constant> registered{"constant", "one learning rate for all steps"};

}  // namespace
}  // namespace moelab
