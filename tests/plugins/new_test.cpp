// `moelab new`: what it writes compiles without a warning and passes its test as it stands.
#include <doctest/doctest.h>

#include "core/cli/templates.h"
#include "registry/registry.h"
#include "tests/plugins/installed.h"

using namespace moelab;
using namespace moelab::testing;

namespace {

namespace fs = std::filesystem;

constexpr const char* kWarnings =
    "set(CMAKE_CXX_FLAGS \"-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror\")\n";

}  // namespace

TEST_CASE("a new component of every family builds and passes") {
  const std::string source = plugin_tree("new"), build = plugin_tree("new_build");
  fs::remove_all(source);
  fs::remove_all(build);
  std::string project = std::string("cmake_minimum_required(VERSION 3.25)\nproject(all CXX)\n") +
                        kWarnings + "enable_testing()\n";
  for (const auto& [family, entry] : component_templates()) {
    const std::string name = "my_" + family;
    const CommandResult made =
        run_moelab("new " + family + " " + name + " --out " + source + "/" + name);
    REQUIRE_MESSAGE(made.code == 0, made.text);
    project += "add_subdirectory(" + name + ")\n";
  }
  std::ofstream(source + "/CMakeLists.txt") << project;
  const std::string failure = build_project(source, build);
  REQUIRE_MESSAGE(failure.empty(), failure);
  const CommandResult tests = run_command(MOELAB_CTEST " --output-on-failure --test-dir " + build);
  CHECK_MESSAGE(tests.code == 0, tests.text);
  const std::string all = std::to_string(2 * component_templates().size());
  CHECK_MESSAGE(tests.text.find("out of " + all) != std::string::npos, tests.text);
}

TEST_CASE("every family has a template, and every template a family") {
  for (const auto& [name, family] : families())
    CHECK_MESSAGE(component_templates().contains(name), name);
  for (const auto& [family, entry] : component_templates())
    CHECK_MESSAGE(families().contains(family), family);
}

TEST_CASE("new refuses what would not work") {
  const TemporaryFolder folder;
  const std::string out = " --out " + folder.path("x");
  CHECK(run_moelab("new rooter mine" + out).text.find("did you mean 'router'?") !=
        std::string::npos);
  for (const char* words : {"rooter mine", "router", "router Mine", "router 2nd", "router a-b",
                            "router softmax", "router test"})
    CHECK_MESSAGE(run_moelab("new " + std::string(words) + out).code == 2, words);
  CHECK(run_moelab("new router mine --out " + folder.path()).code == 2);
  CHECK(run_moelab("new router mine --out /proc/none").code == 7);
  CHECK_FALSE(fs::exists(folder.path("x")));
}
