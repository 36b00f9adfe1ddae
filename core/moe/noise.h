// Noise of tokens: counter-based draws, which recorded ones may replace. T tokens, W width.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/moe/router.h"

namespace moelab {

enum class NoiseKind : std::uint8_t {
  uniform,  // U(0, 1), without 0 and 1
  gumbel,   // −log(−log U)
  normal,   // N(0, 1)
};

struct NoiseSpec {
  NoiseKind kind = NoiseKind::uniform;
  std::string stream;  // what is drawn, "router/gumbel": the same for all layers
  std::string name;    // how a NoiseSource knows it, "model.layers.3.mlp.gate.gumbel"
  Index width = 0;
};

// Step, micro-batch and layer as one coordinate of the draws.
std::uint64_t noise_salt(const Moment& moment, Index layer);

// f64 [T, W]: what `source` (may be null) has under the spec's name, else element (t, w) is draw
// number id(t)·W + w of the stream. Ids are global token ids; in inference, where a text arrives
// piece by piece, they are made of row and position.
Tensor token_noise(const Backend& backend, const NoiseSpec& spec, const Tokens& tokens,
                   const Moment& moment, Index layer, const NoiseSource* source);

// Each valid token's expert of largest logit + noise + bias, ties to the lowest id; −1 for padding.
// Sums are taken in the logits' dtype. `noise_TE` and `bias_E` may be undefined; `other_than`: an
// expert a token that is passed over, −1 none; may be null.
std::vector<std::int32_t> best_expert(const Tensor& logits_TE, const Tensor& noise_TE,
                                      const Tensor& bias_E, const Tensor& valid_T,
                                      const std::vector<std::int32_t>* other_than = nullptr);

}  // namespace moelab
