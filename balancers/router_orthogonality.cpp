// Directions of the gate's rows held apart, whatever their lengths (router orthogonalization loss
// of ERNIE 4.5, Baidu 2025; the same term without its square root stands in DynMoE, Guo et al.
// 2024).
#include "core/moe/gate_loss.h"

namespace moelab {
namespace {

class RouterOrthogonality final : public GateLoss {
 public:
  struct Params : GateLossParams {
    Params() : GateLossParams{1e-3} {}
    std::string formula() const {
      return str(
          "L = sum over all i, j of (u_i . u_j - [i = j])^2, u the rows of the gate over "
          "their lengths; 0 when they are orthogonal; objective + ",
          exact(coefficient), " * L");
    }
  };
  RouterOrthogonality(const Params& params, const Context& context)
      : GateLoss({.squared = true, .normalize = true}, params.coefficient, context) {}
};

const Register<Balancer, RouterOrthogonality> registered{
    "router_orthogonality", "the directions of the gate's rows kept apart"};

}  // namespace
}  // namespace moelab
