// A component that the linker dropped, or that a list forgot, would be missed silently.
#include <doctest/doctest.h>

#include <fstream>
#include <set>
#include <string>

#include "registry/registry.h"

#include "test_paths.h"

using namespace moelab;

TEST_CASE("the registry holds exactly what the folders' CMake lists promise") {
  std::set<std::string> listed, registered;
  std::ifstream file(MOELAB_BINARY_DIR "/components.txt");
  for (std::string line; std::getline(file, line);)
    if (!line.empty()) listed.insert(line);
  for (const auto& [name, family] : families())
    for (const EntryBase* member : family->members()) registered.insert(name + "/" + member->name);
  REQUIRE(!listed.empty());
  for (const std::string& name : listed)
    CHECK_MESSAGE(registered.contains(name), name, " is in a CMake list, but registers nothing");
  for (const std::string& name : registered)
    CHECK_MESSAGE(listed.contains(name), name, " is registered, but in no CMake list");
}

TEST_CASE("no two components share a name") { CHECK(registration_conflicts().empty()); }
