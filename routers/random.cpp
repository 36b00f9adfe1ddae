// Experts drawn uniformly, anew for each token and step: a baseline for learned routing (Megatron
// Core's forced balancing draws logits to the same end).
#include "core/moe/fixed_choice.h"
#include "core/moe/noise.h"

namespace moelab {
namespace {

class Random final : public FixedChoiceRouter {
 public:
  struct Params : FixedChoiceParams {
    Traits traits() const {
      Traits traits = FixedChoiceParams::traits();
      traits.stochastic = true;
      return traits;
    }
    std::string formula() const {
      return formula_for(str(k, " different ones, drawn uniformly for each token and step"));
    }
  };
  Random(const Params& params, const Context& context) : FixedChoiceRouter(params, context) {}

 private:
  // Held-out rows meet the same experts at every evaluation; text that is generated a token at a
  // time is told apart by position.
  void choose(const RouterInput& input, Index t, std::span<std::int32_t> chosen) const override {
    const bool train = input.moment.phase == Phase::train;
    const Rng rng(input.moment.seed, "router/random",
                  noise_salt(train ? input.moment : Moment{}, input.layer));
    const Index token = input.moment.phase == Phase::inference
                            ? input.tokens.position_T.data<std::int32_t>()[t]
                            : input.tokens.global_id(t);
    draw_distinct(rng, static_cast<std::uint64_t>(token) * chosen.size(), experts(), chosen);
  }
};

const Register<Router, Random> registered{"random", "experts drawn uniformly: a baseline"};

}  // namespace
}  // namespace moelab
