// Reads weights of others into a model: safetensors files with the names of Hugging Face's
// Qwen3-MoE family (one tensor an expert, or fused), of Mixtral, and of this project's checkpoints.
#pragma once
#include <string>

#include "core/model/transformer.h"

namespace moelab {

// `path`: a .safetensors file, a model.safetensors.index.json, or a folder with either. Every
// parameter must be found with its shape; f32, f64, bf16 and f16 convert to the run's dtype. Throws
// Error(checkpoint) naming everything that is missing, unfit or left over.
void import_weights(Transformer& model, const std::string& path);

}  // namespace moelab
