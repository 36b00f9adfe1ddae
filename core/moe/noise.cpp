#include "core/moe/noise.h"

#include <algorithm>
#include <cmath>

#include "core/base/rng.h"
#include "core/base/threads.h"

namespace moelab {
namespace {

double draw(NoiseKind kind, const Rng& rng, std::uint64_t index) {
  if (kind == NoiseKind::normal) return rng.normal(index);
  const double uniform = std::max(rng.uniform(index), 0x1p-54);  // 0 is the only bad value
  return kind == NoiseKind::uniform ? uniform : -std::log(-std::log(uniform));
}

std::uint64_t width(Index w) { return static_cast<std::uint64_t>(w); }

std::uint64_t draw_id(const Tokens& tokens, Phase phase, Index t) {
  if (phase != Phase::inference) return static_cast<std::uint64_t>(tokens.global_id(t));
  const auto row = static_cast<std::uint64_t>(tokens.first_row + t / tokens.length);
  return row << 32U | static_cast<std::uint64_t>(tokens.position_T.data<std::int32_t>()[t]);
}

}  // namespace

std::uint64_t noise_salt(const Moment& moment, Index layer) {
  const auto part = [](Index i) { return static_cast<std::uint64_t>(i); };
  return part(moment.step) << 32U | part(moment.micro_batch) << 16U | part(layer);
}

Tensor token_noise(const Backend& backend, const NoiseSpec& spec, const Tokens& tokens,
                   const Moment& moment, Index layer, const NoiseSource* source) {
  const Tensor noise_TW = backend.empty(DType::f64, {tokens.count(), spec.width});
  if (source != nullptr && *source && (*source)(spec.name, noise_TW)) return noise_TW;
  const Rng rng(moment.seed, spec.stream, noise_salt(moment, layer));
  auto* noise = noise_TW.data<double>();
  parallel_items(tokens.count(), [&](std::int64_t t) {
    const std::uint64_t first = draw_id(tokens, moment.phase, t) * width(spec.width);
    for (Index w = 0; w < spec.width; ++w)
      noise[t * spec.width + w] = draw(spec.kind, rng, first + width(w));
  });
  return noise_TW;
}

std::vector<std::int32_t> best_expert(const Tensor& logits_TE, const Tensor& noise_TE,
                                      const Tensor& bias_E, const Tensor& valid_T,
                                      const std::vector<std::int32_t>* other_than) {
  const Index experts = logits_TE.size(1);
  const auto valid = valid_T.span<std::uint8_t>();
  std::vector<std::int32_t> best_T(valid.size(), -1);
  dispatch_real(logits_TE.dtype(), "best_expert", [&](auto zero) {
    using T = decltype(zero);
    std::vector<T> bias(static_cast<std::size_t>(experts), T(0));
    if (bias_E)
      dispatch_real(bias_E.dtype(), "best_expert", [&](auto from) {
        const auto values = bias_E.span<decltype(from)>();
        std::transform(values.begin(), values.end(), bias.begin(),
                       [](auto value) { return static_cast<T>(value); });
      });
    const T* logits = logits_TE.data<T>();
    const double* noise = noise_TE ? noise_TE.data<double>() : nullptr;
    parallel_items(logits_TE.size(0), [&](std::int64_t t) {
      const auto at = static_cast<std::size_t>(t);
      if (valid[at] == 0) return;
      T most = T(0);
      for (Index e = 0; e < experts; ++e) {
        if (other_than != nullptr && (*other_than)[at] == e) continue;
        const Index i = t * experts + e;
        const T key = logits[i] + (noise ? static_cast<T>(noise[i]) : T(0)) +
                      bias[static_cast<std::size_t>(e)];
        if (best_T[at] >= 0 && !(key > most)) continue;
        most = key;
        best_T[at] = static_cast<std::int32_t>(e);
      }
    });
  });
  return best_T;
}

}  // namespace moelab
