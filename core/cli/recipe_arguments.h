// What the verbs that take a recipe share: its options, and loading it with all problems reported.
#pragma once
#include "core/cli/options.h"
#include "core/train/evaluate.h"
#include "core/train/run_config.h"
#include "registry/plugin.h"

namespace moelab {

Positional recipe_positional();  // RECIPE
Option set_option();             // --set KEY=VALUE …
Option threads_option();         // --threads N
Option trace_option();           // --trace DIR
Option replay_option();          // --replay PATH
Option plugin_option();          // --plugin X.so …

// Loads the recipe that positional `at` names, with --set. Throws Error(usage) with every mistake;
// warnings go to streams.err.
RunConfig load_recipe_argument(const Arguments& arguments, const Streams& streams, Report& report,
                               std::size_t at = 0);

// The saved model that positional `at` names, with --set, --trace and --replay.
SavedModel open_saved_argument(const Arguments& arguments, const Streams& streams,
                               std::size_t at = 0);
// Loads what --plugin names. Throws Error(usage).
std::vector<Plugin> plugin_arguments(const Arguments& arguments);

// --threads, or every core: the process's total.
int threads_argument(const Arguments& arguments);

}  // namespace moelab
