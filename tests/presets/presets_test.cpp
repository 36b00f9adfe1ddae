// recipes/presets: every routing trains, and the published sizes give the published counts.
#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <set>

#include "core/lab/cost.h"
#include "test_paths.h"
#include "tests/train/tiny_run.h"

using namespace moelab;
using moelab::testing::TinyRun;
namespace fs = std::filesystem;

namespace {

fs::path presets() { return fs::path(MOELAB_SOURCE_DIR) / "recipes/presets"; }

std::set<std::string> names(const fs::path& folder) {
  std::set<std::string> out;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".toml") out.insert(entry.path().stem().string());
  return out;
}

// What the model's makers say, in billions, and how they count active parameters.
struct Published {
  double total = 0, active = 0;
  enum class Counts { both_tables, head_only } counts = Counts::both_tables;
  const char* note = "";  // why our active count is compared with another figure than the headline
};

const std::map<std::string, Published> published{
    {"mixtral_8x7b", {46.7, 12.9}},
    {"mixtral_8x22b", {140.6, 39.1}},
    {"deepseek_moe_16b", {16.4, 2.83, {}, "headline 2.8"}},
    {"olmoe_1b_7b", {6.92, 1.28}},
    {"qwen1_5_moe_a2_7b", {14.3, 2.69, {}, "headline 2.7"}},
    {"qwen2_57b_a14b", {57.4, 14.2}},
    {"qwen3_30b_a3b", {30.5, 3.35, {}, "headline 3.3, rounded down"}},
    {"qwen3_235b_a22b", {235, 22.2, {}, "headline 22"}},
    {"gpt_oss_20b", {20.91, 3.61, Published::Counts::head_only}},
    {"gpt_oss_120b", {116.83, 5.13, Published::Counts::head_only}},
    {"granite_3_1b_a400m", {1.33, 0.43, {}, "headline 0.4, rounded"}},
    {"granite_3_3b_a800m", {3.3, 0.88, {}, "headline 0.8, rounded down"}},
    {"dbrx", {131.6, 36.5, {}, "headline 132 and 36, rounded"}},
};

}  // namespace

TEST_CASE("every preset trains 20 steps, and learns") {
  const TinyRun run;
  const std::set<std::string> all = names(presets());
  CHECK(all.size() >= 15);
  for (const std::string& name : all) {
    if (name == "toy") continue;  // the base of the others, no routing of its own
    CAPTURE(name);
    const auto ended =
        run.train_recipe((presets() / (name + ".toml")).string(), name,
                         {"train.steps=20", "data.dataset.path=" + run.path("text.txt"),
                          "eval.final=false", "sample.final=false"});
    CHECK(ended.code == ExitCode::ok);
    const std::vector<double> losses = run.numbers(name, "loss");
    REQUIRE(losses.size() == 20);
    for (const double loss : losses) CHECK(std::isfinite(loss));
    CHECK(losses.back() < 0.8 * losses.front());
  }
}

TEST_CASE("published sizes give the published parameters within 1 %") {
  const fs::path folder = presets() / "published";
  std::set<std::string> listed;
  for (const auto& [name, model] : published) listed.insert(name);
  CHECK(names(folder) == listed);
  for (const auto& [name, model] : published) {
    CAPTURE(name);
    Report report;
    const RunConfig config = load_run_config((folder / (name + ".toml")).string(), {}, report);
    const RunCost cost = run_cost(config);
    const double table = model.counts == Published::Counts::head_only
                             ? static_cast<double>(config.model.vocabulary * config.model.hidden)
                             : 0;
    CHECK(static_cast<double>(cost.parameters) / 1e9 == doctest::Approx(model.total).epsilon(0.01));
    CHECK((static_cast<double>(cost.active_parameters) - table) / 1e9 ==
          doctest::Approx(model.active).epsilon(0.01));
  }
}
