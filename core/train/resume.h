// Going on from a checkpoint: what may have changed in the recipe meanwhile, and what may not.
#pragma once
#include <iosfwd>
#include <string>
#include <vector>

#include "core/checkpoint/store.h"
#include "core/train/run_config.h"

namespace moelab {

struct RecipeChange {
  std::string path, before, after;  // TOML text; "" where the key does not exist
  std::string reason;               // why it cannot change in the middle of a run; "" if it can
};
// Differences of two resolved recipes, by key.
std::vector<RecipeChange> compare_recipes(const std::string& before, const std::string& after);

// Shows every difference in `log`; throws Error(checkpoint) naming all that are refused, or when
// the data is not the one that was trained on.
void check_resume(const Checkpoint& checkpoint, const std::string& recipe,
                  std::uint64_t data_fingerprint, std::ostream& log);

}  // namespace moelab
