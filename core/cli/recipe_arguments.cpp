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

Option trace_option() { return {"trace", "DIR", "record the routing of trace.layers there"}; }

Option replay_option() {
  return {"replay", "PATH",
          "force the routing recorded there: a run's folder, its trace folder or "
          "a file of it"};
}

SavedModel open_saved_argument(const Arguments& arguments, const Streams& streams, std::size_t at) {
  SavedModel saved = open_saved(arguments.positional(at), arguments.texts("set"), streams.err);
  if (arguments.has("trace")) {
    saved.trace_folder = arguments.text("trace");
    saved.config.trace.steps = "all";
  }
  saved.config.replay.from = arguments.text("replay", saved.config.replay.from);
  return saved;
}

Option plugin_option() {
  return {"plugin", "X.so", "load further components from a shared library; may be repeated", true};
}

std::vector<Plugin> plugin_arguments(const Arguments& arguments) {
  std::vector<Plugin> plugins;
  for (const std::string& path : arguments.texts("plugin")) plugins.push_back(load_plugin(path));
  return plugins;
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
