// A shared expert: y += network(x) (DeepSpeed-MoE and DeepSeekMoE, Dai et al. 2024).
#include <algorithm>

#include "core/autograd/functions.h"
#include "experts/shared_mlp.h"

namespace moelab {
namespace {

class Plain final : public Shared {
 public:
  struct Params : SharedParams {
    Traits traits() const {
      return {[*this](Index hidden) { return cost(hidden); }};
    }
    std::string formula() const { return str("y = routed + ", network_text()); }
  };
  Plain(const Params& params, const Context& context) : network_(params, context) {}

  Variable forward(Tape& tape, const Variable& x_TH, const Variable& routed_TH,
                   const Tokens& tokens) override {
    return add(tape, routed_TH, network_.forward(tape, x_TH, ones(tape, x_TH, tokens)));
  }
  void parameters(const std::function<void(Parameter&)>& visit) override {
    network_.parameters(visit);
  }

 private:
  // 1 for tokens, 0 for padding; empty when there is none.
  static Variable ones(Tape& tape, const Variable& x_TH, const Tokens& tokens) {
    const auto valid_T = tokens.valid_T.span<std::uint8_t>();
    if (std::find(valid_T.begin(), valid_T.end(), 0) == valid_T.end()) return {};
    const Tensor weight_T = tape.backend().empty(x_TH.value.dtype(), {tokens.count()});
    dispatch_real(weight_T.dtype(), "shared expert", [&]<class T>(T) {
      std::transform(valid_T.begin(), valid_T.end(), weight_T.data<T>(),
                     [](std::uint8_t valid) { return valid != 0 ? T(1) : T(0); });
    });
    return tape.constant(weight_T);
  }

  SharedMlp network_;
};

const Register<Shared, Plain> registered{"plain", "a network for every token, added"};

}  // namespace
}  // namespace moelab
