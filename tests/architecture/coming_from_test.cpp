// docs/coming-from.md: every key and every component that its second columns name is there.
#include <doctest/doctest.h>

#include <algorithm>

#include "core/train/recipe_page.h"
#include "registry/parameter_info.h"
#include "registry/registry.h"
#include "tests/architecture/source_tree.h"

using namespace moelab;
using namespace moelab::testing;

namespace {

const FamilyRegistry* family_called(const std::string& name) {
  const auto at = families().find(name);
  return at == families().end() ? nullptr : at->second;
}

bool has_member(const FamilyRegistry& family, const std::string& name) {
  return std::ranges::any_of(family.members(),
                             [&](const EntryBase* entry) { return entry->name == name; });
}

bool has_key(const FamilyRegistry& family, const std::string& key) {
  return std::ranges::any_of(family.members(), [&](const EntryBase* entry) {
    return std::ranges::any_of(parameters_of(*entry),
                               [&](const ParameterInfo& row) { return row.key == key; });
  });
}

// `router = "softmax"`, `router.k`, `train.batch`
bool exists(const std::string& code) {
  if (const std::size_t equals = code.find(" = \""); equals != std::string::npos) {
    const FamilyRegistry* family = family_called(code.substr(0, equals));
    return family && has_member(*family, code.substr(equals + 4, code.size() - equals - 5));
  }
  const std::size_t dot = code.find('.');
  const FamilyRegistry* family = family_called(code.substr(0, dot));
  if (dot != std::string::npos && family) return has_key(*family, code.substr(dot + 1));
  return recipe_markdown().find("| `" + code + "` |") != std::string::npos;
}

std::vector<std::string> codes_in(const std::string& cell) {
  std::vector<std::string> out;
  for (std::size_t at = cell.find('`'); at != std::string::npos;) {
    const std::size_t end = cell.find('`', at + 1);
    if (end == std::string::npos) break;
    out.push_back(cell.substr(at + 1, end - at - 1));
    at = cell.find('`', end + 1);
  }
  return out;
}

}  // namespace

TEST_CASE("every recipe key in docs/coming-from.md exists") {
  CHECK(exists("router.k"));
  CHECK(exists("router = \"softmax\""));
  CHECK(exists("train.batch"));
  CHECK_FALSE(exists("router.kk"));
  CHECK_FALSE(exists("router = \"softmix\""));
  CHECK_FALSE(exists("train.bach"));
  std::size_t keys = 0;
  for (const SourceFile& file : source_tree()) {
    if (file.path != "docs/coming-from.md") continue;
    for (const std::string& line : file.lines) {
      const std::size_t first = line.find(" | "), second = line.find(" | ", first + 1);
      if (!line.starts_with("|") || second == std::string::npos) continue;
      for (const std::string& code : codes_in(line.substr(first, second - first))) {
        CHECK_MESSAGE(exists(code), code, " in: ", line);
        ++keys;
      }
    }
  }
  CHECK(keys > 40);
}
