// Run folders, what may change on resume, signals.
#include "core/train/run_folder.h"

#include <csignal>

#include <doctest/doctest.h>

#include <filesystem>
#include <sstream>

#include "core/checkpoint/file_io.h"
#include "core/train/resume.h"
#include "core/train/signals.h"
#include "registry/error.h"
#include "tests/support/temporary_folder.h"

using namespace moelab;
using moelab::testing::TemporaryFolder;
namespace fs = std::filesystem;

TEST_CASE("a run folder in use is refused with the remedy, and free again afterwards") {
  const TemporaryFolder folder;
  const std::string path = folder.path("run");
  {
    const RunFolder first(path);
    std::string message;
    try {
      const RunFolder second(path);
    } catch (const Error& problem) {
      CHECK(problem.code() == ExitCode::usage);
      message = problem.what();
    }
    INFO(message);
    CHECK(message.find(path) != std::string::npos);
    CHECK(message.find("--out") != std::string::npos);
  }
  const RunFolder again(path);
  CHECK_FALSE(again.holds_run());
  again.write("recipe.toml", "a = 1\n");
  CHECK(again.holds_run());
  CHECK(read_text(path + "/recipe.toml") == "a = 1\n");
  CHECK_THROWS_AS(RunFolder("/proc/none/run"), Error);
}

TEST_CASE("a run folder into which nothing was written goes away, with the folders made for it") {
  const TemporaryFolder folder;
  { const RunFolder run(folder.path("runs/deep/run/")); }
  CHECK(fs::is_empty(folder.path()));
  fs::create_directory(folder.path("runs"));
  { const RunFolder run(folder.path("runs/run")); }
  CHECK(fs::is_empty(folder.path("runs")));
  { RunFolder(folder.path("runs/run")).write("recipe.toml", ""); }
  { const RunFolder again(folder.path("runs/run")); }
  CHECK(fs::exists(folder.path("runs/run/recipe.toml")));
}

TEST_CASE("a checkpoint that is not there: path, reason and remedy") {
  const TemporaryFolder folder;
  const auto says = [](const std::string& path) {
    std::ostringstream warnings;
    try {
      find_checkpoint(path, warnings);
    } catch (const Error& problem) {
      CHECK(problem.code() == ExitCode::checkpoint);
      return std::string(problem.what());
    }
    return std::string("found");
  };
  const std::string none = folder.path("none"), file = folder.write("file", "x");
  CHECK(says(none).starts_with(str("no checkpoint at '", none, "': it does not exist; name a ")));
  CHECK(says(file).starts_with(str("no checkpoint at '", file, "': it is a file; name a run's")));
  CHECK(says(folder.path()).find("neither checkpoints/ nor meta.json") != std::string::npos);
  fs::create_directories(folder.path("run/checkpoints"));
  CHECK(says(folder.path("run")).find("has no whole one; start the run anew") != std::string::npos);
  std::ostringstream warnings;
  CHECK_THROWS_WITH_AS(find_weights(none, warnings), doctest::Contains("does not exist; name a"),
                       Error);
  CHECK(find_weights(file, warnings) == file);
}

TEST_CASE("runs/latest points to the run; default names count up") {
  const TemporaryFolder folder;
  const fs::path before = fs::current_path();
  fs::current_path(folder.path());
  CHECK(default_run_folder("recipes/tiny.toml", "", false) == "runs/tiny");
  const RunFolder first("runs/tiny");
  first.write("recipe.toml", "");
  CHECK(first.link_latest().empty());
  CHECK(fs::read_symlink("runs/latest") == "tiny");
  CHECK(default_run_folder("recipes/tiny.toml", "", false) == "runs/tiny-2");
  CHECK(default_run_folder("recipes/tiny.toml", "", true) == "runs/tiny");
  const RunFolder other("elsewhere");
  CHECK(other.link_latest().empty());
  CHECK(fs::equivalent("runs/latest", "elsewhere"));
  CHECK(default_run_folder("recipes/tiny.toml", "my/run", false) == "my/run");
  fs::current_path(before);
}

TEST_CASE("resume: changes that make no sense are refused, the others shown") {
  const std::string before =
      "[run]\nseed = 1\n[model]\nhidden = 8\n[ffn.a]\nnum_experts = 4\n[ffn.a.balancers.aux]\n"
      "coefficient = 0.1\n[data]\nsequence_length = 8\ndataset.path = \"a\"\n[train]\nsteps = "
      "10\nbatch = 4\n"
      "[parallel]\nranks = 1\n[optimizer]\ntype = \"adamw\"\nbeta1 = 0.9\n";
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string after = before;
    after.replace(after.find(from), from.size(), to);
    return after;
  };
  CHECK(compare_recipes(before, before).empty());
  for (const auto& [from, to] : {std::pair("steps = 10", "steps = 20"),
                                 {"ranks = 1", "ranks = 2"},
                                 {"beta1 = 0.9", "beta1 = 0.8"},
                                 {"path = \"a\"", "path = \"b\""},
                                 {"ent = 0.1", "ent = 0.2"}}) {
    const auto changes = compare_recipes(before, changed(from, to));
    REQUIRE(changes.size() == 1);
    CHECK(changes[0].reason == "");
  }
  for (const auto& [from, to] : {std::pair("seed = 1", "seed = 2"),
                                 {"hidden = 8", "hidden = 16"},
                                 {"num_experts = 4", "num_experts = 8"},
                                 {"length = 8", "length = 16"},
                                 {"batch = 4", "batch = 8"},
                                 {"\"adamw\"", "\"other\""}}) {
    const auto changes = compare_recipes(before, changed(from, to));
    REQUIRE(changes.size() == 1);
    CHECK(changes[0].reason != "");
  }
  Checkpoint checkpoint;
  checkpoint.path = "runs/x/checkpoints/step-5";
  checkpoint.meta.recipe = before;
  checkpoint.meta.data_fingerprint = 5;
  std::ostringstream log;
  check_resume(checkpoint, changed("steps = 10", "steps = 20"), 5, log);
  CHECK(log.str().find("train.steps: 10 -> 20") != std::string::npos);
  CHECK_THROWS_AS(check_resume(checkpoint, before, 6, log), Error);
  try {
    check_resume(checkpoint, changed("hidden = 8", "hidden = 16"), 5, log);
    FAIL("not refused");
  } catch (const Error& problem) {
    CHECK(problem.code() == ExitCode::checkpoint);
    CHECK(std::string(problem.what()).find("model.hidden: 8 -> 16") != std::string::npos);
  }
}

TEST_CASE("signals are noted while the guard stands") {
  {
    const SignalGuard guard;
    CHECK(SignalGuard::caught() == 0);
    std::raise(SIGTERM);
    CHECK(SignalGuard::caught() == SIGTERM);
  }
  const SignalGuard again;
  CHECK(SignalGuard::caught() == 0);
  std::raise(SIGINT);
  CHECK(SignalGuard::caught() == SIGINT);
}
