// Noise that a router adds in training only. T tokens, W width.
#pragma once
#include "core/moe/noise.h"

namespace moelab {

// [T, W] in `dtype`: recorded draws if the input's source has them, else in training the router's
// own; undefined otherwise.
Tensor training_noise(const Backend& backend, const NoiseSpec& spec, const RouterInput& input,
                      DType dtype);

}  // namespace moelab
