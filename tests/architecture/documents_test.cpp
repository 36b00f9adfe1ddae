// Pages that quote sources quote them as they are.
#include <doctest/doctest.h>

#include <algorithm>

#include "tests/architecture/source_tree.h"

using namespace moelab::testing;

namespace {

const SourceFile& file_named(const std::string& path) {
  const auto& tree = source_tree();
  const auto at = std::find_if(tree.begin(), tree.end(),
                               [&](const SourceFile& file) { return file.path == path; });
  REQUIRE_MESSAGE(at != tree.end(), path, " is missing");
  return *at;
}

}  // namespace

TEST_CASE("the example in CONTRIBUTING.md is the one that the contracts run on") {
  const auto& page = file_named("CONTRIBUTING.md").lines;
  const auto& example = file_named("tests/support/example_router.cpp").lines;
  CHECK(std::search(page.begin(), page.end(), example.begin(), example.end()) != page.end());
}
