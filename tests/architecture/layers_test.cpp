// Arrows point down: every #include must be one that the table in ARCHITECTURE.md allows.
#include <doctest/doctest.h>

#include <algorithm>
#include <optional>
#include <set>
#include <sstream>

#include "tests/architecture/source_tree.h"

using namespace moelab::testing;

namespace {

struct Layer {
  std::string name;
  std::set<std::string> uses;
};

// The rows "| `core/base` | `registry` |" of ARCHITECTURE.md, in order.
std::vector<Layer> layer_table() {
  std::vector<Layer> table;
  for (const SourceFile& file : source_tree()) {
    if (file.path != "ARCHITECTURE.md") continue;
    for (const std::string& line : file.lines) {
      if (!line.starts_with("| `")) continue;
      std::string words = line;
      std::replace_if(
          words.begin(), words.end(), [](char c) { return c == '|' || c == '`'; }, ' ');
      std::istringstream in(words);
      Layer layer;
      in >> layer.name;
      for (std::string word; in >> word;) layer.uses.insert(word == "-" ? layer.name : word);
      table.push_back(layer);
    }
  }
  return table;
}

// The layer a path lies in: "core/ops" of "core/ops/add.k.cpp"; "" if it is in none.
std::string layer_of(const std::vector<Layer>& table, const std::string& path) {
  for (const Layer& layer : table)
    if (path.starts_with(layer.name + "/")) return layer.name;
  return "";
}

// What uses the library as others do.
bool outside_the_layers(const std::string& path) {
  return path == "main.cpp" || path.starts_with("tests/") || path.starts_with("examples/") ||
         path.starts_with("cmake/");
}

}  // namespace

TEST_CASE("the layer table lists every layer below those that use it") {
  const std::vector<Layer> table = layer_table();
  REQUIRE(table.size() >= 20);
  std::set<std::string> seen;
  for (const Layer& layer : table) {
    for (const std::string& used : layer.uses) {
      CAPTURE(layer.name);
      CAPTURE(used);
      CHECK((used == layer.name || seen.contains(used)));
    }
    CHECK_MESSAGE(seen.insert(layer.name).second, layer.name, " is listed twice");
  }
}

TEST_CASE("includes follow the layer table") {
  const std::vector<Layer> table = layer_table();
  int includes = 0;
  for (const SourceFile& file : source_tree()) {
    if (!is_cpp(file) || outside_the_layers(file.path)) continue;
    const std::string from = layer_of(table, file.path);
    CHECK_MESSAGE(!from.empty(), file.path, " lies in no layer of ARCHITECTURE.md");
    const auto layer =
        std::find_if(table.begin(), table.end(), [&](const Layer& l) { return l.name == from; });
    if (layer == table.end()) continue;
    for (std::size_t i = 0; i < file.lines.size(); ++i) {
      const std::string path = included(file.lines[i]);
      if (path.empty() || path.front() == '<') continue;
      ++includes;
      const std::string to = layer_of(table, path);
      const bool allowed = to == from || layer->uses.contains(to);
      CHECK_MESSAGE(allowed, file.path, ":", i + 1, ": ", from, " may not include ", path);
    }
  }
  CHECK(includes > 100);
}
