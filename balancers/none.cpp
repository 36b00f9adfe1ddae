// Dropper none: every pair is kept.
#include "core/moe/dropper.h"

namespace moelab {
namespace {

class NoDropping final : public Dropper {
 public:
  struct Params {
    void describe(ParamVisitor&) {}
    std::string formula() const { return "every (token, expert) pair is kept"; }
  };
  NoDropping(const Params&, const Context&) {}
  void drop(RoutingPlan&, const Tensor&, const DropInput&) override {}
};

const Register<Dropper, NoDropping> registered{"none", "drops nothing"};

}  // namespace
}  // namespace moelab
