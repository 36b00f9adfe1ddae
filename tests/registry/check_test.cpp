// `moelab check` on recipes with mistakes: each tests/golden/errors/*.toml with the report it gets.
// MOELAB_UPDATE_GOLDEN=1 rewrites the reports.
#include "core/lab/check.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "core/train/run_config.h"
#include "test_paths.h"
#include "tests/registry/toy.h"

using namespace moelab;
namespace fs = std::filesystem;

namespace {

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream out;
  out << file.rdbuf();
  return out.str();
}

void erase_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at; (at = text.find(from)) != std::string::npos;)
    text.erase(at, to.empty() ? from.size() : text.find(to, at) + to.size() - at);
}

// The report without the folder the recipes stand in, and without the lists of what is registered:
// a new component or parameter is no change of these texts.
std::string report_of(const fs::path& recipe) {
  std::string text = check_recipe(recipe.string(), {}).text;
  erase_all(text, recipe.parent_path().string() + "/", "");
  erase_all(text, " (known: ", ")");
  return text;
}

constexpr std::string_view kGood = R"([model]
layers = ["first", "moe*3"]
[ffn.first]
kind = "dense"
[ffn.moe]
[train]
steps = 4
[schedule]
type = "constant"
[data.dataset]
path = "text"
)";

}  // namespace

TEST_CASE("every recipe with mistakes gets exactly its report, and exit code 2") {
  const fs::path folder = fs::path(MOELAB_SOURCE_DIR) / "tests/golden/errors";
  std::set<fs::path> recipes;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".toml") recipes.insert(entry.path());
  REQUIRE(recipes.size() >= 7);
  for (const fs::path& recipe : recipes) {
    const fs::path golden = fs::path(recipe).replace_extension(".txt");
    const std::string report = report_of(recipe);
    if (std::getenv("MOELAB_UPDATE_GOLDEN")) std::ofstream(golden, std::ios::binary) << report;
    CAPTURE(recipe.filename().string());
    CHECK(report == read(golden));
    if (recipe.stem() != "warnings")
      CHECK(check_recipe(recipe.string(), {}).code == ExitCode::usage);
  }
}

TEST_CASE("a recipe with six different mistakes reports six") {
  const fs::path recipe = fs::path(MOELAB_SOURCE_DIR) / "tests/golden/errors/six_mistakes.toml";
  const std::string text = check_recipe(recipe.string(), {}).text;
  CHECK(text.find("six_mistakes.toml: 6 errors, 0 warnings\n") != std::string::npos);
}

TEST_CASE("a good recipe is read, and its resolved text reads back to the same values") {
  const toy::Folder folder;
  const std::string path = folder.write("good.toml", kGood);
  const CheckResult check = check_recipe(path, {});
  CHECK(check.code == ExitCode::ok);
  CHECK(check.text == path + ": no errors, 0 warnings\n");
  Report first, second;
  const RunConfig config = load_run_config(path, {}, first);
  CHECK(config.layer_kinds() == std::vector<std::string>{"first", "moe", "moe", "moe"});
  CHECK(config.total_steps() == 4);
  CHECK(config.model_seed() == 1);
  const std::string resolved = resolved_toml(first);
  load_run_config(folder.write("resolved.toml", resolved), {}, second);
  CHECK(resolved_toml(second) == resolved);
}

TEST_CASE("evaluation without held-out text is warned of, with and without eval.every") {
  const toy::Folder folder;
  const std::string path = folder.write("good.toml", kGood);
  const auto says = [&](std::vector<std::string> sets) {
    sets.emplace_back("data.dataset.heldout_fraction=0");
    const CheckResult check = check_recipe(path, sets);
    CHECK(check.code == ExitCode::ok);
    return check.text;
  };
  const std::string warning =
      "--set data.dataset.heldout_fraction: warning: data.dataset.heldout_fraction = 0.0 holds out "
      "no text: ";
  CHECK(says({}).starts_with(warning + "eval.final = true will measure nothing; raise it"));
  CHECK(says({"eval.every=5"}).starts_with(warning + "eval.every = 5 will measure nothing"));
  CHECK(says({"eval.final=false"}) == path + ": no errors, 0 warnings\n");
}

TEST_CASE("tokens give the steps; --set wins over the recipe") {
  const toy::Folder folder;
  const std::string path = folder.write("good.toml", kGood);
  const std::vector<std::string> sets{"train.steps=0", "train.tokens=40960", "run.seed=7",
                                      "data.seed=3"};
  Report report;
  const RunConfig config = load_run_config(path, sets, report);
  CHECK(config.total_steps() == 10);
  CHECK(config.model_seed() == 7);
  CHECK(config.data_seed() == 3);
}

TEST_CASE("all errors of a recipe are thrown together") {
  const toy::Folder folder;
  const std::string path = folder.write("good.toml", kGood);
  Report report;
  const std::vector<std::string> sets{"train.batch=0", "model.hidden=-1"};
  try {
    load_run_config(path, sets, report);
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::usage);
    CHECK(std::string(error.what()) ==
          "--set model.hidden: error: model.hidden = -1 must be in [1, 10000000]\n"
          "--set train.batch: error: train.batch = 0 must be in [1, 10000000]\n");
  }
}
