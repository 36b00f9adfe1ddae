// The checks of a recipe that see more than one value. run_config.cpp calls them.
#pragma once
#include <optional>

#include "core/train/run_config.h"

namespace moelab {

constexpr std::int64_t kMaxLayers = 4096;

struct LayerPattern {  // "moe*3"
  std::string name;
  std::int64_t count = 1;
};
std::optional<LayerPattern> parse_layer_pattern(std::string_view text);

// Names that a recipe may expect and that are not built yet: reported by name, before reading.
void refuse_unbuilt_names(const Node& root, Report& report);

// Contradictions between values, over all sections and components. Values that are mistakes by
// themselves stand at their defaults.
void check_run_config(const RunConfig& config, const Node& root, Report& report);

}  // namespace moelab
