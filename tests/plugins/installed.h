// This build, installed into a folder of its own, and CMake projects built against it.
#pragma once
#include <filesystem>
#include <string>

#include "tests/support/run_command.h"
#include "tests/support/temporary_folder.h"

namespace moelab::testing {

// The same path in every run, so that a compiler cache may help.
inline std::string plugin_tree(const std::string& name) {
  return std::string(MOELAB_BINARY_DIR) + "/plugin_tree/" + name;
}

// The prefix; installed once a program.
inline const std::string& installed_prefix() {
  static const std::string prefix = [] {
    const std::string path = plugin_tree("prefix");
    std::filesystem::remove_all(path);
    const CommandResult result =
        run_command(MOELAB_CMAKE " --install " MOELAB_BINARY_DIR " --prefix " + path);
    REQUIRE_MESSAGE(result.code == 0, result.text);
    return path;
  }();
  return prefix;
}

// Configures and builds `source` in `build`; the text of what failed, "" if nothing did.
inline std::string build_project(const std::string& source, const std::string& build) {
  const std::string configure =
      MOELAB_CMAKE " -G Ninja -S " + source + " -B " + build +
      " -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG=-O0 -DCMAKE_CXX_COMPILER=" MOELAB_CXX
      " -DCMAKE_CXX_COMPILER_LAUNCHER=" MOELAB_LAUNCHER " -DCMAKE_PREFIX_PATH=" +
      installed_prefix();
  for (const std::string& command : {configure, MOELAB_CMAKE " --build " + build})
    if (const CommandResult result = run_command(command); result.code != 0) return result.text;
  return "";
}

}  // namespace moelab::testing
