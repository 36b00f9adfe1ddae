// moelab report: finished runs as a table.
#include <doctest/doctest.h>

#include <sstream>

#include "core/lab/run_table.h"
#include "registry/error.h"
#include "tests/support/run_command.h"
#include "tests/support/temporary_folder.h"

using namespace moelab;
using namespace moelab::testing;

namespace {

// A run's folder with two steps; MaxVio of the first step is far off, that of the last is given.
void write_run(const TemporaryFolder& folder, const std::string& name, int seed, int k,
               double heldout, double max_vio) {
  std::ostringstream recipe, summary, metrics;
  recipe << "[run]\nseed = " << seed << "\nfolder = \"" << name << "\"\n[ffn.moe.router]\nk = " << k
         << "\n";
  summary << R"({"steps": 2, "heldout_loss": )" << heldout << R"(, "heldout_bits_per_byte": null})";
  metrics << R"({"step":1,"tokens_per_second":10,"moe/0/max_vio":900,"moe/0/drop_rate":0.5})"
          << "\n"
          << R"({"step":2,"tokens_per_second":30,"moe/0/max_vio":)" << max_vio - 1
          << R"(,"moe/1/max_vio":)" << max_vio + 1
          << R"(,"moe/0/drop_rate":0.25,"moe/0/drop_rate/capacity":0.75})"
          << "\n";
  folder.write(name + "/recipe.toml", recipe.str());
  folder.write(name + "/summary.json", summary.str());
  folder.write(name + "/metrics.jsonl", metrics.str());
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("seeds of one recipe share a row; rows are in order of held-out loss") {
  const TemporaryFolder folder;
  write_run(folder, "one-1", 1, 1, 2.0, 3);
  write_run(folder, "one-2", 2, 1, 2.5, 5);
  write_run(folder, "two-1", 1, 2, 1.5, 2);
  folder.write("three/recipe.toml", "[run]\nseed = 1\n");
  std::ostringstream warnings;
  const auto rows = run_table(folder.path(), 1, warnings);
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].name == "two-1");
  CHECK(rows[0].heldout_loss.mean == 1.5);
  CHECK(rows[0].heldout_loss.deviation == 0);
  CHECK(rows[1].name == "one");
  CHECK(rows[1].runs.size() == 2);
  CHECK(rows[1].steps == 2);
  CHECK(rows[1].heldout_loss.mean == 2.25);
  CHECK(rows[1].heldout_loss.deviation == doctest::Approx(0.35355339));
  CHECK(rows[1].max_vio.mean == 4);  // layers and runs, the last step alone
  CHECK(rows[1].drop_rate.mean == 0.25);
  CHECK(rows[1].tokens_per_second.mean == 30);
  CHECK(rows[1].experts_per_token.mean != rows[1].experts_per_token.mean);  // not measured
  CHECK(contains(warnings.str(), "three has no summary.json"));
  CHECK(run_table(folder.path(), 2, warnings)[0].drop_rate.mean == 0.375);
}

TEST_CASE("report prints text, markdown and JSON") {
  const TemporaryFolder folder;
  write_run(folder, "one-1", 1, 1, 2.0, 3);
  write_run(folder, "one-2", 2, 1, 2.5, 5);
  const std::string words = "report --last 1 " + folder.path();
  const CommandResult text = run_moelab(words);
  CHECK(text.code == 0);
  CHECK(contains(text.text, "recipe  runs  steps"));
  CHECK(contains(text.text, "2.2500 ± 0.3536"));
  CHECK(contains(run_moelab(words + " --format markdown").text,
                 "| one | 2 | 2 | 2.2500 ± 0.3536 | - |"));
  CHECK(contains(run_moelab(words + " --format json").text, "\"heldout_loss\":2.25,"));
  CHECK(run_moelab(words + " --format csv").code == 2);
}

TEST_CASE("report names what it cannot read") {
  const TemporaryFolder folder;
  CHECK(run_moelab("report " + folder.path()).code == 3);
  CHECK(run_moelab("report " + folder.path("nowhere")).code == 3);
  write_run(folder, "a", 1, 1, 2.0, 3);
  folder.write("b/recipe.toml", "");
  folder.write("b/summary.json", R"({"steps": null})");
  CHECK(contains(run_moelab("report " + folder.path("b")).text, "it names no number of steps"));
  folder.write("b/summary.json", R"({"steps": 1, "heldout_loss": "NaN"})");
  folder.write("b/metrics.jsonl", "{\"step\":1,\"tokens_per_second\":\"Infinity\"}\n");
  CHECK(contains(run_moelab("report " + folder.path("b")).text, "     -"));
  folder.write("a/metrics.jsonl", "{\"step\":1,");
  const CommandResult half = run_moelab("report " + folder.path());
  CHECK(half.code == 3);
  CHECK(contains(half.text, "a/metrics.jsonl:1 cannot be read: it is not whole"));
}
