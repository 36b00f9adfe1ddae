// A component that the linker dropped, or that a list forgot, would be missed silently.
#include <doctest/doctest.h>

#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "core/train/recipe_page.h"
#include "registry/listing.h"
#include "registry/parameter_info.h"
#include "registry/registry.h"
#include "tests/support/family_pages.h"

#include "test_paths.h"

using namespace moelab;
using namespace moelab::testing;

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

TEST_CASE("generated pages are what the binary says; build target docs to rewrite them") {
  const auto page = [](const std::string& name) {
    std::ifstream file(MOELAB_SOURCE_DIR "/docs/" + name, std::ios::binary);
    return std::string{std::istreambuf_iterator<char>(file), {}};
  };
  const char* remedy = "stale: cmake --build --preset release --target docs";
  CHECK_MESSAGE(page("components.md") == components_markdown(), remedy);
  CHECK_MESSAGE(page("recipe_keys.md") == recipe_markdown(), remedy);
  CHECK_MESSAGE(page("recipe.schema.json") == recipe_schema(), remedy);
  std::map<std::string, std::string> pages;
  for (const auto& [name, family] : families()) {
    pages[name] = page("families/" + name + ".md");
    CHECK_MESSAGE(pages[name] == family_page(*family, pages[name]), name, ": ", remedy);
  }
  CHECK_MESSAGE(page("families/README.md") == family_index(pages), remedy);
}

TEST_CASE("every component and every parameter has its words") {
  for (const auto& [name, family] : families())
    for (const EntryBase* member : family->members()) {
      CAPTURE(name + "/" + member->name);
      CHECK(member->summary.size() > 3);
      for (const ParameterInfo& parameter : parameters_of(*member)) {
        CAPTURE(parameter.key);
        CHECK(parameter.doc.size() > 3);
      }
    }
}

TEST_CASE("the page of a family tells source, use and costs of every member") {
  for (const auto& [name, family] : families()) {
    std::ifstream file(MOELAB_SOURCE_DIR "/docs/families/" + name + ".md", std::ios::binary);
    const auto words = words_of(std::string{std::istreambuf_iterator<char>(file), {}});
    for (const EntryBase* member : family->members())
      for (const std::string& word : required_words()) {
        const auto at = words.find(member->name);
        CHECK_MESSAGE((at != words.end() && at->second.contains(word)), "docs/families/", name,
                      ".md: ", member->name, " lacks **", word, ".**");
      }
  }
}
