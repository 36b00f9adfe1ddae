// moe: the mixture-of-experts layer as a feed-forward network.
#include "core/moe/moe_params.h"

namespace moelab {
namespace {

class MoeFfn final : public Ffn {
 public:
  struct Params : MoeParams {
    void check(const Facts& facts, Checker& checker) const { check_moe(*this, facts, checker); }
    Traits traits() const { return moe_traits(*this); }
    std::string formula() const { return moe_formula(*this); }
  };

  MoeFfn(const Params& params, const Context& context) : layer_(params, context) {}

  FfnOutput forward(Tape& tape, const FfnInput& input) override {
    return layer_.forward(tape, input);
  }
  void parameters(const std::function<void(Parameter&)>& visit) override {
    layer_.parameters(visit);
  }
  StateStore* state() override { return &layer_.state(); }
  void after_step(const StepLoad& load) override { layer_.after_step(load); }
  void begin_step() override { layer_.begin_step(); }
  std::vector<LossTerm> pooled_losses(Tape& tape, std::span<const Routing> layers,
                                      const FfnInput& input) override {
    return layer_.pooled_losses(tape, layers, input);
  }

 private:
  MoeLayer layer_;
};

const Register<Ffn, MoeFfn> registered{"moe", "experts behind a router"};

}  // namespace
}  // namespace moelab
