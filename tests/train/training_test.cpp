// Whole runs through train(): the same bits for any threads and after any stop, the same losses on
// any layout and accumulation, policies on what is not finite, what a run leaves.
#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>

#include "core/train/evaluate.h"
#include "tests/support/tolerance.h"
#include "tests/train/tiny_run.h"

using namespace moelab;
using moelab::testing::Ended;
using moelab::testing::largest_deviation;
using moelab::testing::TinyRun;
namespace fs = std::filesystem;

namespace {

const double kSameInF64 = tolerance(DType::f64).layout;

void check_same_end(const TinyRun& run, const std::string& a, const std::string& b,
                    const std::string& step) {
  CHECK(run.metrics(a) == run.metrics(b));
  for (const char* file : {kModelFile, kOptimizerFile, kStateFile})
    CHECK(run.bytes(a + "/checkpoints/" + step + "/" + file) ==
          run.bytes(b + "/checkpoints/" + step + "/" + file));
}

}  // namespace

TEST_CASE("training learns, and gives the same bits twice and for any number of threads") {
  const TinyRun run;
  CHECK(run.train("a", {"train.steps=30"}).code == ExitCode::ok);
  run.train("b", {"train.steps=30"}, "none", 2);
  check_same_end(run, "a", "b", "step-30");
  const auto loss = run.numbers("a", "loss");
  REQUIRE(loss.size() == 30);
  CHECK(loss.front() == doctest::Approx(std::log(256)).epsilon(0.02));
  CHECK(loss.back() < 0.75 * loss.front());
  CHECK(run.numbers("a", "moe/2/bias_max").back() > 0);
  CHECK(run.numbers("a", "loss/aux").front() == doctest::Approx(1).epsilon(0.2));
}

TEST_CASE("resuming is bitwise equal to never having stopped") {
  const TinyRun run;
  run.train("whole");
  // A limit this small stops after every step.
  for (int i = 0; i < 3; ++i)
    CHECK(run.train("parts", {"train.max_seconds=1e-9"}, "auto").code == ExitCode::ok);
  CHECK(run.numbers("parts", "step").back() == 3);
  const Ended ended = run.train("parts", {}, "auto");
  CHECK(ended.log.find("train.max_seconds") != std::string::npos);
  check_same_end(run, "whole", "parts", "step-12");
  // Going on from a named checkpoint in another folder.
  run.train("other", {}, run.path("parts/checkpoints/step-12"));
  CHECK(fs::exists(run.path("other/summary.json")));
}

TEST_CASE("a run refused for missing data or weights leaves nothing behind") {
  const TinyRun run;
  CHECK_THROWS_AS(run.train("a", {"data.dataset.path=none"}), Error);
  CHECK_FALSE(fs::exists(run.path("a")));
  CHECK_THROWS_AS(run.train("b", {}, "none", 1, run.path("none")), Error);
  CHECK_FALSE(fs::exists(run.path("b")));
}

TEST_CASE("--init takes the folder of a run or of a checkpoint") {
  const TinyRun run;
  run.train("a");
  const auto loss = run.numbers("a", "loss");
  for (const std::string from : {"a", "a/checkpoints/step-12"}) {
    CAPTURE(from);
    const std::string name = "from-" + from.substr(from.rfind('/') + 1);
    const Ended ended = run.train(name, {"train.steps=1"}, "none", 1, run.path(from));
    CHECK(run.numbers(name, "loss").at(0) < loss.front() - 0.1);
    CHECK(ended.log.find("a/checkpoints/step-12/model.safetensors\n") != std::string::npos);
  }
}

TEST_CASE("frozen controllers stay as the run left them that training starts from") {
  const auto with_prices = [](std::string text) {
    const std::string bias = "[ffn.moe.balancers.bias]\ntype = \"expert_bias\"\n";
    text.erase(text.find(bias), bias.size());
    const std::string softmax = "\"softmax\"";
    return text.replace(text.find(softmax), softmax.size(), "\"quantile\"");
  };
  for (const bool prices : {false, true}) {
    const TinyRun run(prices ? with_prices : std::function<std::string(std::string)>{});
    run.train("a");
    const std::string state = run.bytes(std::string("a/checkpoints/step-12/") + kStateFile);
    run.train("b", {"train.steps=20", "train.freeze_controllers=true"}, "none", 1, run.path("a"));
    CHECK(run.bytes(std::string("b/checkpoints/step-20/") + kStateFile) == state);
    // Not frozen they go on from there, and state of other experts is refused.
    run.train("c", {"train.steps=1"}, "none", 1, run.path("a"));
    CHECK(run.bytes(std::string("c/checkpoints/step-1/") + kStateFile) != state);
    CHECK_THROWS_AS(run.train("d", {"run.dtype=f64"}, "none", 1, run.path("a")), Error);
  }
}

TEST_CASE("a damaged checkpoint is named and the one before it is used") {
  const TinyRun run;
  const std::vector<std::string> sets{"train.checkpoint_every=4"};
  run.train("a", sets);
  const std::string expected = run.metrics("a"), file = "a/checkpoints/step-12/model.safetensors";
  const std::string whole = run.bytes(file);
  std::string damaged = whole;
  damaged[damaged.size() - 3] = static_cast<char>(damaged[damaged.size() - 3] ^ 4);
  std::ofstream(run.path(file), std::ios::binary) << damaged;
  const Ended ended = run.train("a", sets, "auto");
  INFO(ended.log);
  CHECK(ended.log.find("step-12: model.safetensors is missing or damaged") != std::string::npos);
  CHECK(ended.log.find("resuming from " + run.path("a/checkpoints/step-8")) != std::string::npos);
  CHECK(run.metrics("a") == expected);
  CHECK(run.bytes(file) == whole);
}

TEST_CASE("layouts and accumulation change losses only by rounding") {
  const TinyRun run;
  run.train("one", {"run.dtype=f64"});
  const auto expected = run.numbers("one", "loss");
  for (const auto& [ranks, ep] : {std::pair(2, 1), {2, 2}, {4, 4}, {4, 2}}) {
    const std::string name = str("ranks", ranks, "ep", ep);
    run.train(name, {"run.dtype=f64", str("parallel.ranks=", ranks), str("parallel.ep=", ep)},
              "none", ranks);
    CAPTURE(name);
    CHECK(largest_deviation(run.numbers(name, "loss"), expected) < kSameInF64);
    CHECK(largest_deviation(run.numbers(name, "grad_norm"), run.numbers("one", "grad_norm")) <
          kSameInF64);
    CHECK(run.numbers(name, "moe/1/load_cv") == run.numbers("one", "moe/1/load_cv"));
  }
  for (const char* scope : {"sequence", "group"}) {
    std::vector<std::string> sets{"run.dtype=f64", str("ffn.moe.balancers.aux.scope=", scope)};
    if (std::string(scope) == "group") sets.push_back("ffn.moe.balancers.aux.group_size=2");
    run.train(str("large-", scope), sets);
    sets.push_back("train.accumulate=4");
    run.train(str("small-", scope), sets);
    CAPTURE(scope);
    CHECK(largest_deviation(run.numbers(str("small-", scope), "loss"),
                            run.numbers(str("large-", scope), "loss")) < kSameInF64);
    CHECK(largest_deviation(run.numbers(str("small-", scope), "loss/aux"),
                            run.numbers(str("large-", scope), "loss/aux")) < kSameInF64);
  }
}

TEST_CASE("a checkpoint of one layout goes on under another") {
  const TinyRun run;
  run.train("one", {"run.dtype=f64"});
  for (const auto& [first, second] : {std::pair(2, 1), {1, 4}, {4, 2}}) {
    const std::string name = str("from", first, "to", second);
    const auto layout = [](int ep) {
      return std::vector<std::string>{"run.dtype=f64", str("parallel.ranks=", ep),
                                      str("parallel.ep=", ep)};
    };
    auto sets = layout(first);
    sets.push_back("train.max_seconds=1e-9");
    for (int i = 0; i < 4; ++i) run.train(name, sets, "auto", first);
    run.train(name, layout(second), "auto", second);
    CAPTURE(name);
    CHECK(largest_deviation(run.numbers(name, "loss"), run.numbers("one", "loss")) < kSameInF64);
  }
}

TEST_CASE("what is not finite: raise names it, skip moves nothing") {
  const TinyRun run;
  std::vector<std::string> sets{"schedule.learning_rate=1e30", "train.steps=4",
                                "optimizer.learning_rate_factors=['*.1.mlp.experts.*=1', '*=0']",
                                "train.checkpoint_every=1", "train.keep_checkpoints=4"};
  try {
    run.train("raise", sets);
    FAIL("not refused");
  } catch (const Error& problem) {
    CHECK(problem.code() == ExitCode::numerical);
    const std::string text = problem.what();
    INFO(text);
    CHECK(text.find("step 2: ") != std::string::npos);
    CHECK(text.find("the router scores of layer 2") != std::string::npos);
    CHECK(text.find("weight") != std::string::npos);
  }
  sets.push_back("train.non_finite=skip");
  const Ended ended = run.train("skip", sets);
  CHECK(ended.code == ExitCode::ok);
  CHECK(run.numbers("skip", "skipped") == std::vector<double>{0, 1, 1, 1});
  CHECK(ended.log.find("the step is skipped") != std::string::npos);
  for (const char* file : {kModelFile, kOptimizerFile, kStateFile})
    CHECK(run.bytes(str("skip/checkpoints/step-1/", file)) ==
          run.bytes(str("skip/checkpoints/step-4/", file)));
}

TEST_CASE("frozen controllers do not move") {
  const TinyRun run;
  run.train("a", {"train.freeze_controllers=true"});
  CHECK(run.numbers("a", "moe/1/bias_max") == std::vector<double>(12, 0.0));
}

TEST_CASE("a run leaves its folder; eval and generate use it") {
  const TinyRun run;
  const Ended ended = run.train("a", {"eval.final=true", "sample.final=true", "eval.every=5",
                                      "sample.every=6", "eval.batch=3"});
  for (const char* name : {"recipe.toml", "environment.json", "metrics.jsonl", "report.txt",
                           "summary.json", "checkpoints/step-12/meta.json"})
    CHECK(fs::exists(run.path(str("a/", name))));
  CHECK(run.bytes("a/report.txt") == ended.out);
  CHECK(fs::equivalent(run.path("runs/latest"), run.path("a")));
  CHECK(ended.out.find("bits/byte") != std::string::npos);
  CHECK(ended.out.find("layer  2") != std::string::npos);
  CHECK(ended.log.find("step 6: sample") != std::string::npos);
  CHECK(run.numbers("a", "heldout_loss").size() == 2);
  const std::string summary = run.bytes("a/summary.json");
  for (const char* key :
       {"steps", "tokens", "seconds", "train_loss", "heldout_loss", "heldout_bits_per_byte"})
    CHECK(summary.find(str("\"", key, "\": ")) != std::string::npos);

  std::ostringstream warnings;
  const SavedModel saved = open_saved(run.path("a"), {}, warnings);
  const HeldoutResult heldout = evaluate_saved(saved, 1);
  CHECK(summary.find(str("\"heldout_loss\": ", exact(heldout.loss))) != std::string::npos);
  CHECK(heldout.bits_per_byte == doctest::Approx(heldout.loss / std::log(2.0)));
  CHECK(heldout.tokens >= 999);  // 1000 bytes held out
  Sampling sampling = sampling_of(saved.config.sample);
  std::string pieces;
  const std::string text = generate_saved(saved, "the ", sampling, 1,
                                          [&](const std::string& piece) { pieces += piece; });
  CHECK(text.size() == 8);
  CHECK(pieces == text);
  CHECK(generate_saved(saved, "the ", sampling, 2) == text);
  CHECK_THROWS_AS(open_saved(run.path("none"), {}, warnings), Error);
  CHECK_THROWS_AS(run.train("a"), Error);                        // holds a run already
  CHECK_THROWS_AS(run.train("b", {}, run.path("none")), Error);  // nothing to resume there
  CHECK_THROWS_AS(run.train("a", {"model.hidden=32"}, "auto"), Error);
}

TEST_CASE("the layout changes the held-out loss only by rounding") {
  const TinyRun run;
  const std::vector<std::string> sets{"run.dtype=f64", "train.steps=2", "eval.every=1",
                                      "eval.batch=5"};
  run.train("one", sets);
  auto four = sets;
  four.insert(four.end(), {"parallel.ranks=4", "parallel.ep=2", "eval.batch=8"});
  run.train("four", four, "none", 4);
  CHECK(largest_deviation(run.numbers("four", "heldout_loss"), run.numbers("one", "heldout_loss")) <
        kSameInF64);
}

TEST_CASE("a run without a held-out part claims no held-out loss") {
  const TinyRun run;
  const Ended ended =
      run.train("a", {"data.dataset.heldout_fraction=0.0", "eval.final=true", "eval.every=5"});
  CHECK(ended.out.find("held out") == std::string::npos);
  CHECK(run.bytes("a/summary.json").find("\"heldout_loss\": null") != std::string::npos);
  CHECK(run.numbers("a", "heldout_loss").empty());
  std::ostringstream warnings;
  CHECK_THROWS_AS(evaluate_saved(open_saved(run.path("a"), {}, warnings), 1), Error);
}
