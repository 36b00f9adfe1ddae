// Hugging Face configurations as recipes. H hidden, E experts.
#pragma once
#include <string>

#include "tests/golden_tests/suite.h"

namespace moelab::test {

struct HfRecipe {
  std::string text;     // [model] and [ffn.…]
  std::string missing;  // what the configuration needs and does not exist; "": nothing
};

// `config`: the members of config.json. `balancers`: lines for the MoE layers' table.
HfRecipe hf_recipe(const GoldenCase& config, const std::string& family,
                   const std::string& balancers = "");

}  // namespace moelab::test
