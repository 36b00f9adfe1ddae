// Shared libraries with further components. Loading one runs the registrations in it; from then on
// its components are like any other. A plugin is built for one version, compiler and set of headers
// (moelab_add_plugin of the installed CMake package stamps it); the stamp is read from the file and
// compared before any of the plugin's code runs.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "registry/problem.h"

namespace moelab {

struct Plugin {
  std::string path;                                          // absolute
  std::vector<std::pair<std::string, std::string>> members;  // family, name
};

// Loads it for good; a second time does nothing. Throws Error(usage): no such file, not a plugin,
// built for something else, a symbol is missing, a name is taken, or it registers nothing.
const Plugin& load_plugin(const std::string& path);

// The recipe's `plugins = ["a.so", …]`, before any component is looked up. Failures become problems
// at their places; wrong types are left to the reader of the recipe.
void load_plugins(const Node& recipe, Report& report);

}  // namespace moelab
