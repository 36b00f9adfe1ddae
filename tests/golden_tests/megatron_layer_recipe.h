// Megatron Core's layer configuration as a recipe, and its names of weights.
#pragma once
#include <string>
#include <vector>

#include "tests/golden_tests/megatron.h"

namespace moelab::test {

constexpr const char* kBiasLabel = "expert_bias";

// [ffn.<name>] of a layer; the losses are labelled with their types.
std::string layer_recipe(const GoldenCase& c, const std::vector<AttachedLoss>& losses);
// The case's name of a layer's parameter: "test.mlp.gate.weight" → "router_weight".
std::string weight_name(const std::string& parameter);

}  // namespace moelab::test
