// What learned routers share: the gate that turns tokens into logits, with its noise and precision.
// T tokens, H hidden, E experts.
#pragma once
#include <array>
#include <string>

#include "core/autograd/functions.h"
#include "core/moe/router.h"

namespace moelab {

enum class GateDType : std::uint8_t { input, f32, f64 };
template <>
struct EnumNames<GateDType> {
  static constexpr std::array<std::pair<std::string_view, GateDType>, 3> value{
      {{"input", GateDType::input}, {"f32", GateDType::f32}, {"f64", GateDType::f64}}};
};

struct GateParams {
  double jitter = 0.0;
  GateDType dtype = GateDType::input;
  bool bias = false;
  bool gating_residual = false;
  void describe(ParamVisitor& v);
  Router::Traits traits() const;    // what the gate alone decides
  std::string logits_text() const;  // "W x", with the gating residual where there is one
};

// A router with a gate of its own.
class GatedRouter : public Router {
 public:
  void parameters(const std::function<void(Parameter&)>& visit) override;
  Parameter* gate() override { return &weight_EH_; }

 protected:
  GatedRouter(const GateParams& params, const Context& context);
  // logits_TE = W x (+ b) (+ R · logits of the MoE layer before), x with its jitter.
  Variable logits(Tape& tape, const RouterInput& input);
  Index experts() const { return experts_; }

 private:
  Variable jittered(Tape& tape, const RouterInput& input) const;

  GateParams params_;
  std::string noise_name_;
  Index experts_ = 0;
  DType compute_;
  Parameter weight_EH_;
  Parameter bias_E_;       // value undefined without bias
  Parameter residual_EE_;  // R; value undefined without gating residual
};

}  // namespace moelab
