#include "core/cli/recipe_arguments.h"

#include <ostream>

#include "core/base/threads.h"

namespace moelab {

Positional recipe_positional() { return {"RECIPE", "a TOML file, e.g. recipes/quickstart.toml"}; }

Option set_option() {
  return {"set", "KEY=VALUE", "change one value, e.g. --set train.steps=40; may be repeated", true};
}

Option threads_option() {
  return {"threads", "N", "threads of the whole process, shared by its ranks; default: all cores"};
}

RunConfig load_recipe_argument(const Arguments& arguments, const Streams& streams, Report& report,
                               std::size_t at) {
  RunConfig config = load_run_config(arguments.positional(at), arguments.texts("set"), report);
  for (const Problem& problem : report.problems())
    if (problem.severity == Problem::Severity::warning) streams.err << problem.line() << "\n";
  return config;
}

int threads_argument(const Arguments& arguments) {
  return static_cast<int>(arguments.integer("threads", hardware_threads(), 1));
}

}  // namespace moelab
