// A dataset as a recipe would make it.
#pragma once
#include <memory>
#include <string>

#include "core/data/dataset.h"
#include "registry/recipe.h"

namespace moelab::testing {

struct DataShape {
  std::int64_t length = 8, batch = 4;
  std::uint64_t seed = 1;
};

// `recipe` is the dataset's table as TOML: type, path, ….
inline std::unique_ptr<Dataset> make_dataset(const std::string& recipe, const DataShape& shape) {
  struct Holder {
    Component<Dataset> dataset{"text"};
    void describe(ParamVisitor& v) { v("dataset", dataset, "under test"); }
  } holder;
  Report report;
  const Node root =
      parse_recipe("[dataset]\n" + recipe, "test.toml", Source::Origin::recipe, report);
  read_into(
      root, "", [&](ParamVisitor& v) { holder.describe(v); }, report);
  if (report.has_errors()) throw Error(ExitCode::usage, report.problems().front().line());
  return holder.dataset.make({.length = shape.length,
                              .batch = shape.batch,
                              .seed = shape.seed,
                              .tokenizer = Component<Tokenizer>("byte").make({})});
}

inline std::string numbered_text(std::size_t bytes) {  // every pair of neighbours tells its place
  std::string text;
  for (std::size_t i = 0; i < bytes; ++i) text += static_cast<char>(i % 251);
  return text;
}

}  // namespace moelab::testing
