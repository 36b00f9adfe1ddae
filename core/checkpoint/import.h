// Weights made elsewhere, read into a model (`--init`): safetensors files with the names of Hugging
// Face's Qwen3-MoE family (one tensor an expert, or fused), of Mixtral, or of this project.
#pragma once
#include <string>

#include "core/autograd/parameter.h"

namespace moelab {

// `path`: a .safetensors file, an index (….index.json), or a folder with either. Every piece of
// every parameter must be found with its shape; f32, f64, f16 and bf16 are converted. Tensors that
// the model does not have are an error too. Throws Error(checkpoint) naming all of them.
void import_weights(Module& model, const std::string& path);

}  // namespace moelab
