// bench train: the losses of transformers' Mixtral on the same weights and bytes, and the lines.
#include "core/lab/bench_train.h"

#include <doctest/doctest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "registry/error.h"
#include "test_paths.h"
#include "tests/support/temporary_folder.h"

using namespace moelab;
using namespace moelab::testing;
using Json = nlohmann::json;

namespace {

const std::string kRecorded = std::string(MOELAB_SOURCE_DIR) + "/tests/train/peer_train/";

// recipes/bench/peer_train.toml at the size of the recorded run (torch 2.15, transformers 5.24).
RunConfig small_config() {
  Report report;
  const std::vector<std::string> sets = {"model.hidden=32",
                                         "model.heads=4",
                                         "model.kv_heads=2",
                                         "model.layers=[\"moe*2\"]",
                                         "ffn.moe.num_experts=4",
                                         "ffn.moe.experts.width=24",
                                         "data.sequence_length=16",
                                         "train.batch=4",
                                         "data.dataset.path=" + kRecorded + "text.txt"};
  RunConfig config = load_run_config(
      std::string(MOELAB_SOURCE_DIR) + "/recipes/bench/peer_train.toml", sets, report);
  REQUIRE_MESSAGE(!report.has_errors(), report.lines());
  return config;
}

std::vector<Json> lines_of(const std::string& text) {
  std::vector<Json> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(Json::parse(line));
  return lines;
}

std::string bench(const BenchTrainOptions& options) {
  std::ostringstream out;
  bench_train(small_config(), options, out);
  return out.str();
}

}  // namespace

TEST_CASE("peer_train: PyTorch's losses and gradient norms, step by step") {
  std::ifstream file(kRecorded + "losses.jsonl");
  std::stringstream recorded;
  recorded << file.rdbuf();
  const std::vector<Json> expected = lines_of(recorded.str());
  REQUIRE(expected.size() == 8);
  BenchTrainOptions options;
  options.steps = 6;
  options.json = true;
  options.init = kRecorded + "weights.safetensors";
  const std::vector<Json> lines = lines_of(bench(options));
  REQUIRE(lines.size() > expected.size());
  for (std::size_t s = 0; s < expected.size(); ++s) {
    INFO("step " << s);
    CHECK(lines[s]["step"] == expected[s]["step"]);
    constexpr double kTolerance = 2e-6;
    CHECK(lines[s]["loss"].get<double>() ==
          doctest::Approx(expected[s]["loss"].get<double>()).epsilon(kTolerance));
    CHECK(lines[s]["grad_norm"].get<double>() ==
          doctest::Approx(expected[s]["grad_norm"].get<double>()).epsilon(kTolerance));
  }
  CHECK(lines[8]["bench"] == "train");
  CHECK_FALSE(lines[8].contains("ratio"));
}

TEST_CASE("bench train --against: the fastest of the other program's ways, and the ratio") {
  const TemporaryFolder folder;
  BenchTrainOptions options;
  options.steps = 1;
  options.warm = 0;
  options.json = true;
  options.against = folder.write(
      "peer.jsonl",
      "{\"impl\": \"slow\", \"step\": 0, \"loss\": 5.5}\n"
      "{\"summary\": \"slow\", \"dtype\": \"f32\", \"ms_median\": 4e9, \"threads\": 1}\n"
      "{\"summary\": \"fast\", \"dtype\": \"f32\", \"ms_median\": 1e9, \"threads\": 1}\n"
      "{\"summary\": \"fast\", \"dtype\": \"f32\", \"ms_median\": 3e9, \"threads\": 1}\n"
      "{\"summary\": \"fast\", \"dtype\": \"f32\", \"ms_median\": 2e9, \"threads\": 1}\n"
      "{\"summary\": \"other threads\", \"dtype\": \"f32\", \"ms_median\": 1, \"threads\": 2}\n"
      "{\"summary\": \"other dtype\", \"dtype\": \"bf16\", \"ms_median\": 1, \"threads\": 1}\n");
  const std::vector<Json> lines = lines_of(bench(options));
  CHECK(lines[1]["other_way"] == "fast");
  CHECK(lines[1]["other_ms"] == 2e9);
  CHECK(lines[1]["ratio"].get<double>() ==
        doctest::Approx(2e9 / lines[1]["ms_median"].get<double>()).epsilon(1e-3));
  options.json = false;
  CHECK(bench(options).find("(fast), ratio") != std::string::npos);
}
