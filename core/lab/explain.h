// `moelab explain R`: every value of a recipe with its origin, what each layer computes, and what
// the run will cost, without training.
#pragma once
#include <span>
#include <string>

namespace moelab {

// Throws Error(usage) with all problems when the recipe has errors.
std::string explain_recipe(const std::string& path, std::span<const std::string> sets);

}  // namespace moelab
