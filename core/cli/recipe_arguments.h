// What the verbs that take a recipe share: its options, and loading it with all problems reported.
#pragma once
#include "core/cli/options.h"
#include "core/train/run_config.h"

namespace moelab {

Positional recipe_positional();  // RECIPE
Option set_option();             // --set KEY=VALUE …
Option threads_option();         // --threads N

// Loads the recipe that positional `at` names, with --set. Throws Error(usage) with every mistake;
// warnings go to streams.err.
RunConfig load_recipe_argument(const Arguments& arguments, const Streams& streams, Report& report,
                               std::size_t at = 0);

// --threads, or every core: the process's total.
int threads_argument(const Arguments& arguments);

}  // namespace moelab
