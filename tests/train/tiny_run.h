// A run small enough for tests: a dense and two MoE layers on generated text, through train().
#pragma once
#include <doctest/doctest.h>

#include <functional>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "core/train/trainer.h"
#include "tests/support/temporary_folder.h"

namespace moelab::testing {

inline std::string generated_text(std::size_t bytes) {
  static const std::vector<std::string> words{"light ", "and ", "water ", "the ", "was ",
                                              "day ",   "in ",  "earth ", "of\n", "night. "};
  const Rng rng(5, "test text");
  std::string text;
  for (std::uint64_t i = 0; text.size() < bytes; ++i) text += words[rng.below(i, words.size())];
  return text.substr(0, bytes);
}

inline std::string tiny_recipe(const std::string& data_path) {
  return R"([model]
hidden = 16
layers = ["dense", "moe*2"]
heads = 4
kv_heads = 4
[ffn.dense]
kind = "dense"
width = 24
[ffn.moe]
kind = "moe"
num_experts = 4
experts = { type = "grouped", width = 12 }
router = { type = "softmax", k = 2 }
[ffn.moe.balancers.aux]
type = "aux_loss"
coefficient = 0.05
[ffn.moe.balancers.bias]
type = "expert_bias"
[data]
sequence_length = 16
dataset = { type = "text", heldout_fraction = 0.05, path = ")" +
         data_path + R"(" }
[train]
steps = 12
batch = 8
[eval]
final = false
[sample]
final = false
tokens = 8
[schedule]
type = "warmup_cosine"
warmup_steps = 4
learning_rate = 0.01
)";
}

struct Ended {
  ExitCode code = ExitCode::ok;
  std::string out, log;
};

class TinyRun {
 public:
  // `edit`: what to make of the recipe's text.
  explicit TinyRun(const std::function<std::string(std::string)>& edit = {}) {
    std::filesystem::current_path(folder_.path());  // runs/latest goes there
    const std::string text = tiny_recipe(folder_.write("text.txt", generated_text(20000)));
    recipe_ = folder_.write("tiny.toml", edit ? edit(text) : text);
  }
  ~TinyRun() { std::filesystem::current_path(before_); }
  const std::string& recipe() const { return recipe_; }
  std::string path(const std::string& name = "") const { return folder_.path(name); }

  // Trains into folder `name` with these values changed.
  Ended train(const std::string& name, const std::vector<std::string>& sets = {},
              const std::string& resume = "none", int threads = 1,
              const std::string& init = "") const {
    return train_recipe(recipe_, name, sets, resume, threads, init);
  }
  Ended train_recipe(const std::string& recipe, const std::string& name,
                     const std::vector<std::string>& sets, const std::string& resume = "none",
                     int threads = 1, const std::string& init = "") const {
    Report report;
    const RunConfig config = load_run_config(recipe, sets, report);
    std::ostringstream out, log;
    Ended ended;
    TrainOptions options;
    options.recipe = recipe;
    options.out = path(name);
    options.resume = resume;
    options.threads = threads;
    options.init = init;
    ended.code = moelab::train(config, report, options, out, log);
    ended.out = out.str();
    ended.log = log.str();
    return ended;
  }

  // metrics.jsonl without what differs from run to run: times and memory.
  std::string metrics(const std::string& name) const;
  std::vector<double> numbers(const std::string& name, const std::string& metric) const;
  std::string bytes(const std::string& name) const;

 private:
  std::filesystem::path before_ = std::filesystem::current_path();
  TemporaryFolder folder_;
  std::string recipe_;
};

// The largest |a − b| / |b| over all pairs.
double largest_deviation(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace moelab::testing
