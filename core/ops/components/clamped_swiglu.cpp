// The clamped SwiGLU of gpt-oss (2025), with its slope and offset; alpha = 1 and offset = 0 is
// DeepSeek-V4's, alpha = 1 with a clamp and an offset Megatron Core's. Gate rows come first, then
// up rows: interleaved ones are a matter of import. F width.
#include <limits>

#include "core/ops/activation.k.h"
#include "core/ops/activation_rows.h"
#include "registry/registry.h"

namespace moelab {
namespace {

class Clamped final : public Activation {
 public:
  struct Params {
    double alpha = 1.702, limit = 7.0, offset = 1.0;
    void describe(ParamVisitor& v) {
      v("alpha", alpha, "slope inside the sigmoid", greater_than(0));
      v("limit", limit, "gates are cut above it, ups outside [-limit, limit]; 0: none",
        at_least(0));
      v("offset", offset, "added to the ups after cutting");
    }
    Activation::Traits traits() const { return {true}; }
    std::string formula() const {
      const bool cut = limit > 0;
      const std::string g = cut ? str("min(gate, ", exact(limit), ")") : "gate";
      const std::string u = cut ? str("clamp(up, ", exact(limit), ")") : "up";
      return str("g · sigmoid(", exact(alpha), " g) · (", u, " + ", exact(offset), "), g = ", g);
    }
  };
  Clamped(const Params& params, const Context&) : params_(params) {}
  bool gated() const override { return true; }
  void forward(const ActivationRows<float>& rows) const override { run_forward(rows); }
  void forward(const ActivationRows<double>& rows) const override { run_forward(rows); }
  void backward(const ActivationRows<float>& rows) const override { run_backward(rows); }
  void backward(const ActivationRows<double>& rows) const override { run_backward(rows); }

 private:
  template <class T>
  cpu_kernels::ClampedSwiglu<T> function() const {
    const T limit =
        params_.limit > 0 ? static_cast<T>(params_.limit) : std::numeric_limits<T>::max();
    return {static_cast<T>(params_.alpha), limit, static_cast<T>(params_.offset)};
  }

  template <class T>
  void run_forward(const ActivationRows<T>& rows) const {
    const auto f = function<T>();
    gated_forward(rows, [f](T gate, T up) { return f.at(gate, up).value; });
  }

  template <class T>
  void run_backward(const ActivationRows<T>& rows) const {
    const auto f = function<T>();
    const auto slopes = [f](T gate, T up) -> GatedSlopes<T> {
      const auto s = f.at(gate, up);
      return {s.value, s.gate, s.up};
    };
    rows.a ? gated_backward<true>(rows, slopes) : gated_backward<false>(rows, slopes);
  }

  Params params_;
};

const Register<Activation, Clamped> registered{
    "clamped_swiglu", "g · sigmoid(alpha g) · (up + offset), gate and up clamped"};

}  // namespace
}  // namespace moelab
