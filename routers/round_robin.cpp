// Experts in turn: exactly even loads over E consecutive tokens (a baseline and the routing of
// benchmarks, as Megatron Core's forced balancing).
#include "core/moe/fixed_choice.h"

namespace moelab {
namespace {

class RoundRobin final : public FixedChoiceRouter {
 public:
  struct Params : FixedChoiceParams {
    std::string formula() const {
      return formula_for(str("choice i of the token at position p of row b is ((b + p) * ", k,
                             " + i) mod the number of experts"));
    }
  };
  RoundRobin(const Params& params, const Context& context) : FixedChoiceRouter(params, context) {}

 private:
  void choose(const RouterInput& input, Index t, std::span<std::int32_t> chosen) const override {
    const Tokens& tokens = input.tokens;
    const Index row = tokens.first_row + t / tokens.length;
    const Index turn = row + tokens.position_T.data<std::int32_t>()[t];
    const auto k = static_cast<Index>(chosen.size());
    for (Index i = 0; i < k; ++i)
      chosen[static_cast<std::size_t>(i)] = static_cast<std::int32_t>((turn * k + i) % experts());
  }
};

const Register<Router, RoundRobin> registered{"round_robin", "experts in turn: exactly even loads"};

}  // namespace
}  // namespace moelab
