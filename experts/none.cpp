// Nothing beside the routed experts.
#include "core/moe/shared.h"

namespace moelab {
namespace {

class NoShared final : public Shared {
 public:
  struct Params {
    void describe(ParamVisitor&) {}
  };
  NoShared(const Params&, const Context&) {}
  Variable forward(Tape&, const Variable&, const Variable& routed_TH, const Tokens&) override {
    return routed_TH;
  }
  void parameters(const std::function<void(Parameter&)>&) override {}
};

const Register<Shared, NoShared> registered{"none", "routed experts only"};

}  // namespace
}  // namespace moelab
