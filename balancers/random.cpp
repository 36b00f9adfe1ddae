// Dropper random: a full expert keeps pairs drawn at random, whatever their weight or position
// (DeepSpeed's random token selection, RTS; Kim et al. 2021, "Scalable and efficient MoE training
// for multitask multilingual models"). Draws are by global token and expert: the same on any
// layout.
#include "core/moe/capacity.h"
#include "core/moe/noise.h"

namespace moelab {
namespace {

class KeepRandom final : public CapacityDropper {
 public:
  struct Params : CapacityParams {
    Dropper::Traits traits() const {
      Dropper::Traits traits = CapacityParams::traits();
      traits.stochastic = true;
      return traits;
    }
    std::string formula() const {
      return CapacityParams::formula("pairs drawn at random, in evaluation too");
    }
  };
  KeepRandom(const Params& params, const Context& context)
      : CapacityDropper(params, context), name_(context.name + ".random") {}

 private:
  void limit(RoutingPlan& plan, const Tensor&, const DropInput& input, const ScopeMap& scope,
             const std::vector<Index>& capacity) const override {
    const Tensor draw_TE =
        token_noise(*Backend::cpu(), {NoiseKind::uniform, "dropper/random", name_, plan.experts},
                    input.tokens, input.moment, input.layer, input.noise);
    const auto* draw = draw_TE.data<double>();
    keep_first(plan, input.tokens, scope, capacity, [&](Index t, Index p) {
      return PairPriority{.score =
                              draw[t * plan.experts + plan.expert_P[static_cast<std::size_t>(p)]]};
    });
  }

  std::string name_;  // of the draws [T, E] in a NoiseSource
};

const Register<Dropper, KeepRandom> registered{"random", "full experts keep pairs drawn at random"};

}  // namespace
}  // namespace moelab
