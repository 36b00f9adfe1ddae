#include "core/moe/training_noise.h"

#include "core/ops/convert.k.h"

namespace moelab {

Tensor training_noise(const Backend& backend, const NoiseSpec& spec, const RouterInput& input,
                      DType dtype) {
  Tensor noise_TW = backend.empty(DType::f64, {input.tokens.count(), spec.width});
  const bool recorded = input.noise && *input.noise && (*input.noise)(spec.name, noise_TW);
  if (!recorded && input.moment.phase != Phase::train) return {};
  if (!recorded)
    noise_TW = token_noise(backend, spec, input.tokens, input.moment, input.layer, nullptr);
  if (dtype == DType::f64) return noise_TW;
  const Tensor out = backend.empty(dtype, noise_TW.shape());
  dispatch_real(dtype, "noise", [&](auto zero) {
    MOELAB_KERNELS::convert(noise_TW.numel(), noise_TW.data<double>(), false,
                            out.data<decltype(zero)>());
  });
  return out;
}

}  // namespace moelab
