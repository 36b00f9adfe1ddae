// Zero experts: a token that chooses one skips that part of the layer (MoE++, Jin et al. 2024).
#include "core/moe/free_expert.h"

namespace moelab {
namespace {

class Zero final : public FreeExpert {
 public:
  struct Params : FreeExpertParams {
    Traits traits() const { return {count, 0}; }
    std::string formula() const { return "expert(x) = 0"; }
  };
  Zero(const Params&, const Context&) {}
  Variable forward(Tape&, const Variable& y_TH, const FreeInput&) override { return y_TH; }
};

const Register<FreeExpert, Zero> registered{"zero", "gives 0: the token skips it"};

}  // namespace
}  // namespace moelab
