// Whole runs of the trainer against the same steps of torch and transformers: losses, norms,
// learning rates, loads, bias paths, first gradients and final weights.
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>

#include "core/checkpoint/import.h"
#include "core/checkpoint/safetensors.h"
#include "core/train/step.h"
#include "core/train/train_loop.h"
#include "tests/golden_tests/training_recipe.h"
#include "tests/golden_tests/values.h"
#include "tests/moe/moe_fixture.h"
#include "tests/support/temporary_folder.h"

namespace moelab::test {
namespace {

class Vocabulary final : public Tokenizer {
 public:
  explicit Vocabulary(std::int64_t size) : size_(size) {}
  std::vector<std::int32_t> encode(std::string_view) const override { return {0}; }
  std::string decode(const std::vector<std::int32_t>&) const override { return ""; }
  std::int64_t vocabulary() const override { return size_; }

 private:
  std::int64_t size_;
};

class Recorded final : public Dataset {  // the case's tokens, [step, row, length + 1]
 public:
  explicit Recorded(const GoldenTensor& tokens) : tokens_(tokens) {}
  Row train_row(std::int64_t step, std::int64_t row) const override {
    const Index length = tokens_.size(2) - 1;
    const auto from = tokens_.values.begin() + (step * tokens_.size(1) + row) * (length + 1);
    Row out;
    for (Index i = 0; i < length; ++i) {
      out.input.push_back(static_cast<std::int32_t>(from[i]));
      out.target.push_back(static_cast<std::int32_t>(from[i + 1]));
      out.position.push_back(static_cast<std::int32_t>(i));
      out.document.push_back(0);
      out.valid.push_back(1);
    }
    return out;
  }
  std::int64_t heldout_rows() const override { return 0; }
  Row heldout_row(std::int64_t) const override { return {}; }
  std::int64_t tokens(Split) const override { return 0; }
  std::int64_t bytes(Split) const override { return 0; }
  std::string raw(Split) const override { return ""; }
  std::string describe() const override { return ""; }
  std::uint64_t fingerprint() const override { return 0; }

 private:
  GoldenTensor tokens_;
};

// A case's weights by our names: as they stand, or slices of the experts' stacks.
class Weights {
 public:
  Weights(const GoldenCase& c, std::string set) : c_(c), set_(std::move(set) + ".") {}
  bool has(const std::string& name) const {
    return c_.has(set_ + name) || c_.has(set_ + stack_of(name).first);
  }
  Values of(const std::string& name) const {
    if (c_.has(set_ + name)) return c_.tensor(set_ + name).values;
    const auto [stack, expert] = stack_of(name);
    const GoldenTensor& all = c_.tensor(set_ + stack);
    return part(all.values, all.size(0), expert);
  }

 private:
  // "….experts.3.up_proj.weight" → {"….experts.up_proj", 3}
  static std::pair<std::string, Index> stack_of(const std::string& name) {
    const std::string marker = ".experts.";
    const std::size_t found = name.find(marker);
    if (found == std::string::npos) return {name, 0};
    const std::size_t at = found + marker.size(), dot = name.find('.', at);
    return {name.substr(0, at) + name.substr(dot + 1, name.rfind('.') - dot - 1),
            std::stoll(name.substr(at, dot - at))};
  }
  const GoldenCase& c_;
  std::string set_;
};

std::vector<Piece> pieces(const Shares& shares) {
  std::vector<Piece> all = shares.whole;
  all.insert(all.end(), shares.sharded.begin(), shares.sharded.end());
  return all;
}

void write_initial_weights(const Weights& init, const Session& session, const std::string& path) {
  const std::vector<Piece> all = pieces(weight_shares(session));
  std::vector<SafetensorsWriter::Item> items;
  for (const Piece& piece : all) items.push_back({piece.name, DType::f64, piece.value.shape()});
  SafetensorsWriter writer(path, items);
  for (const Piece& piece : all)
    writer.add(piece.name,
               reals(*session.ranks.backend, DType::f64, piece.value.shape(), init.of(piece.name)));
  writer.finish();
}

class Metrics {  // a run's metrics.jsonl
 public:
  explicit Metrics(const std::string& path) {
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) lines_.push_back(nlohmann::json::parse(line));
  }
  Values of(const std::string& name) const {
    Values out;
    for (const auto& line : lines_)
      if (line.contains(name)) out.push_back(line.at(name).get<double>());
    return out;
  }

 private:
  std::vector<nlohmann::json> lines_;
};

class Training {
 public:
  Training(const GoldenCase& c, const TrainingRecipe& recipe, DType dtype, Comparison& to)
      : c_(c),
        recipe_(recipe),
        set_(name_of(dtype)),
        to_(to),
        tolerance_(dtype == DType::f64 ? 1e-9 : 2e-5),
        corpus_{std::make_shared<Vocabulary>(recipe.vocabulary),
                std::make_shared<Recorded>(c.tensor("tokens"))} {
    Report report;
    const std::string text = recipe.text(dtype, folder_.write("text.txt", std::string(4000, 'a')));
    config_ = read_run_config(parse_recipe(text, "golden", Source::Origin::recipe, report), report);
    if (report.has_errors()) throw std::runtime_error(report.lines());
  }

  void compare() {
    const RunFolder run(folder_.path("run"));
    std::ostringstream log;
    const std::string init = folder_.path("init.safetensors");
    run_ranks(config_, 1, [&](Rank& rank) {
      compare_first_gradients(init, rank);
      const TrainJob job{config_, corpus_, nullptr, init,
                         "",      run,     log,     ProgressStyle{.quiet = true}};
      TrainLoop(job, rank).run();
    });
    const Metrics metrics(run.file("metrics.jsonl"));
    same("lr", metrics.of("lr"), "lr");
    same("loss", metrics.of("loss"), "ce");
    same("objective", metrics.of("objective"), "loss");
    same("gradient norm", metrics.of("grad_norm"), "grad_norm");
    compare_loads(metrics);
    const std::string checkpoint = run.file(str("checkpoints/step-", recipe_.steps, "/"));
    compare_final(SafetensorsReader(checkpoint + kModelFile));
    if (c_.has(set_ + ".expert_bias")) compare_bias(metrics);
    c_.ignore({set_ + ".aux", set_ + ".z"});  // they are in the objective
  }

 private:
  void same(const std::string& what, const Values& got, const std::string& golden) {
    to_.same(set_ + " " + what, got, c_.tensor(set_ + "." + golden), tolerance_);
  }

  void compare_first_gradients(const std::string& init, Rank& rank) {
    const Session session(config_, corpus_, rank);
    write_initial_weights(Weights(c_, "init"), session, init);
    import_weights(*session.model, init);
    forward_backward(session, StepBatch(session, config_, *corpus_.dataset, 0), 0);
    const Weights wanted(c_, set_ + ".grad0");
    int compared = 0;
    session.model->parameters([&](Parameter& p) {
      const std::vector<Tensor> grads = p.split(p.grad);
      for (std::size_t i = 0; i < grads.size(); ++i) {
        const std::string& name = p.pieces[i].name;
        if (!wanted.has(name)) continue;
        to_.same(str(set_, " first gradient of ", name), doubles(grads[i]), wanted.of(name),
                 tolerance_);
        ++compared;
      }
    });
    if (compared == 0) throw std::runtime_error("no gradient was compared");
  }

  // The metrics have each layer's spread, which no other load gives.
  void compare_loads(const Metrics& metrics) {
    const GoldenTensor& counts = c_.tensor("counts");  // [step, MoE layer, expert]
    for (Index layer = 0; layer < counts.size(1); ++layer) {
      const Values got = metrics.of(str("moe/", layer + recipe_.dense_layers, "/load_cv"));
      Values wanted;
      for (Index step = 0; step < counts.size(0); ++step) {
        const Values load =
            part(counts.values, counts.size(0) * counts.size(1), step * counts.size(1) + layer);
        wanted.push_back(summarize({load.begin(), load.end()}).cv);
      }
      to_.exact(str(set_, " loads of layer ", layer), got, wanted);
    }
  }

  void compare_final(const SafetensorsReader& weights) {
    const Weights wanted(c_, set_ + ".final");
    const auto backend = Backend::cpu();
    int compared = 0;  // the suite holds some of the tensors
    for (const auto& [name, entry] : weights.entries()) {
      if (!wanted.has(name)) continue;
      ++compared;
      const Tensor got = backend->empty(DType::f64, {entry.numel()});
      weights.read_elements(name, 0, got);
      to_.same(str(set_, " final ", name), doubles(got), wanted.of(name), tolerance_);
    }
    if (compared == 0) throw std::runtime_error("no final weight was compared");
  }

  // Theirs is after each step's update, the metrics' before it.
  void compare_bias(const Metrics& metrics) {
    const GoldenTensor& bias = c_.tensor(set_ + ".expert_bias");  // [step, MoE layer, expert]
    for (Index layer = 0; layer < bias.size(1); ++layer)
      for (const bool largest : {true, false}) {
        const Values got = metrics.of(
            str("moe/", layer + recipe_.dense_layers, largest ? "/bias_max" : "/bias_min"));
        Values wanted{0};
        for (Index step = 0; step + 1 < bias.size(0); ++step) {
          const Values now =
              part(bias.values, bias.size(0) * bias.size(1), step * bias.size(1) + layer);
          wanted.push_back(largest ? *std::ranges::max_element(now)
                                   : *std::ranges::min_element(now));
        }
        to_.same(str(set_, largest ? " largest" : " least", " bias of layer ", layer), got, wanted,
                 tolerance_);
      }
  }

  const GoldenCase& c_;
  const TrainingRecipe& recipe_;
  std::string set_;
  Comparison& to_;
  double tolerance_;
  Corpus corpus_;
  testing::TemporaryFolder folder_;
  RunConfig config_;
};

Outcome run_case(const GoldenCase& c) {
  c.ignore({"f32_f64_*"});
  const TrainingRecipe recipe(c);
  if (!recipe.missing.empty()) return Outcome::not_yet(recipe.missing);
  Comparison to;
  for (const DType dtype : {DType::f64, DType::f32}) Training(c, recipe, dtype, to).compare();
  return to.outcome();
}

const RegisterSuite registered{"training", run_case};

}  // namespace
}  // namespace moelab::test
