// Text generation: one forward over the prompt, then one token at a time with cached keys and
// values. Draws come from a counter-based generator: the same seed gives the same tokens.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "core/model/transformer.h"

namespace moelab {

struct Sampling {
  Index tokens = 200;        // to generate
  double temperature = 0.8;  // 0: greedy, lowest id among equals
  double top_p = 1.0;        // smallest set of likeliest tokens whose probability reaches it
  Index top_k = 0;           // 0: off
  std::uint64_t seed = 1;
};

// The tokens that follow `prompt` (not empty). `each`, when given, sees every token as it is drawn.
// Every rank of a run calls it alike. Throws Error: usage if a router of the model is not causal or
// the prompt is empty, numerical if logits are not finite.
std::vector<std::int32_t> generate(Transformer& model, const std::vector<std::int32_t>& prompt,
                                   const Sampling& sampling,
                                   const std::function<void(std::int32_t)>& each = {},
                                   const ForwardHooks& hooks = {});

// One draw from logits [V] (f32 or f64): `index` is the position of the draw in its stream.
std::int32_t sample_token(const Tensor& logits_V, const Sampling& sampling, Index index);

}  // namespace moelab
