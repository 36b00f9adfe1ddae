// SimBal: similar tokens should have similar scores, which a gate of orthonormal rows gives (Omi et
// al. 2025, "Load balancing mixture of experts with similarity preserving routers").
#include "core/moe/gate_loss.h"

namespace moelab {
namespace {

class Similarity final : public GateLoss {
 public:
  struct Params : GateLossParams {
    Params() : GateLossParams{0.1} {}
    std::string formula() const {
      return str(
          "L = sum over all i, j of |w_i . w_j - [i = j]|, w the rows of the gate; 0 when "
          "they are orthonormal; objective + ",
          exact(coefficient), " * L");
    }
  };
  Similarity(const Params& params, const Context& context)
      : GateLoss({.squared = false, .normalize = false}, params.coefficient, context) {}
};

const Register<Balancer, Similarity> registered{
    "similarity", "SimBal: the gate's rows kept near orthonormal, so that similarity is preserved"};

}  // namespace
}  // namespace moelab
