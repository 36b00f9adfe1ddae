// Thirty steps of the whole trainer against the same thirty steps of torch and transformers
// (tests/golden/training): losses, norms, learning rates, loads, bias paths and final weights.
#include <doctest/doctest.h>

#include <cmath>
#include <sstream>

#include "core/checkpoint/safetensors.h"
#include "core/train/train_loop.h"
#include "test_paths.h"
#include "tests/support/tolerance.h"
#include "tests/train/tiny_run.h"

using namespace moelab;
using moelab::testing::largest_deviation;
using moelab::testing::TinyRun;

namespace {

constexpr Index kSteps = 30, kRows = 4, kLength = 16, kVocabulary = 128, kExperts = 6;

class Vocabulary final : public Tokenizer {
 public:
  std::vector<std::int32_t> encode(std::string_view) const override { return {0}; }
  std::string decode(const std::vector<std::int32_t>&) const override { return ""; }
  std::int64_t vocabulary() const override { return kVocabulary; }
};

class Recorded final : public Dataset {  // the golden tokens, [step, row, length + 1]
 public:
  explicit Recorded(Tensor tokens) : tokens_(std::move(tokens)) {}
  Row train_row(std::int64_t step, std::int64_t row) const override {
    const std::int64_t* from = tokens_.data<std::int64_t>() + (step * kRows + row) * (kLength + 1);
    Row out;
    for (Index i = 0; i < kLength; ++i) {
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
  Tensor tokens_;
};

struct Case {
  const char* name;
  const char* layers;  // of the recipe
  const char* extra;   // tables and keys that differ
};
constexpr Case kCases[] = {
    {"qwen3_moe", "[\"moe*2\"]",
     "[ffn.moe.router]\ntype = \"softmax\"\nk = 2\n[model.norm]\ntype = \"rms_norm\"\n"},
    {"plain_softmax", "[\"moe*2\"]",
     "[ffn.moe.router]\ntype = \"softmax\"\nk = 2\nscore_first = true\nnormalize = false\n"
     "[ffn.moe.balancers.aux]\ntype = \"aux_loss\"\ncoefficient = 0.01\n"
     "[ffn.moe.balancers.z]\ntype = \"z_loss\"\ncoefficient = 0.001\n"},
    {"plain_sigmoid_bias", "[\"dense\", \"moe*2\"]",
     "[ffn.dense]\nkind = \"dense\"\nwidth = 48\n"
     "[ffn.moe.router]\ntype = \"sigmoid\"\nk = 2\nnormalize = true\n"
     "[ffn.moe.balancers.aux]\ntype = \"aux_loss\"\ncounts = \"routed\"\ncoefficient = 0.01\n"
     "[ffn.moe.balancers.z]\ntype = \"z_loss\"\ncoefficient = 0.001\n"
     "[ffn.moe.balancers.bias]\ntype = \"expert_bias\"\nupdate_rate = 0.001\n"},
};

std::string recipe_of(const Case& of, DType dtype, const std::string& text_path) {
  const bool qwen = std::string_view(of.name) == "qwen3_moe";
  return str("[run]\ndtype = \"", name_of(dtype), "\"\n[model]\nhidden = 32\nlayers = ", of.layers,
             "\nheads = 4\nkv_heads = 2\nhead_dim = 8\nqk_norm = ", qwen ? "true" : "false",
             "\nnorm_eps = ", qwen ? "1e-6" : "1e-5",
             "\n[ffn.moe]\nkind = \"moe\"\nnum_experts = 6\n"
             "experts = { type = \"grouped\", width = 12 }\n",
             of.extra, "[data]\nsequence_length = 16\ndataset = { type = \"text\", path = \"",
             text_path,
             "\" }\n[train]\nsteps = 30\nbatch = 4\nclip_norm = 1.0\n[eval]\nfinal = false\n"
             "[sample]\nfinal = false\n[schedule]\ntype = \"warmup_cosine\"\n"
             "learning_rate = 0.004\nwarmup_steps = 5\nmin_ratio = 0.1\n"
             "[optimizer]\ntype = \"adamw\"\nbeta1 = 0.9\nbeta2 = 0.95\neps = 1e-8\n"
             "weight_decay = 0.1\n");
}

class Golden {
 public:
  explicit Golden(const Case& of)
      : reader_(MOELAB_SOURCE_DIR "/tests/golden/training/data.safetensors"),
        prefix_(str(of.name, "/")) {}
  bool has(const std::string& name) const { return reader_.has(prefix_ + name); }
  Tensor tensor(const std::string& name) const { return reader_.read(prefix_ + name, *backend_); }
  std::vector<double> numbers(const std::string& name) const {
    const auto& entry = reader_.entries().at(prefix_ + name);
    if (entry.dtype == "I64") {
      const Tensor whole = tensor(name);
      const auto values = whole.span<std::int64_t>();
      return {values.begin(), values.end()};
    }
    const Index n = entry.numel();
    const Tensor out = backend_->empty(DType::f64, {n});
    reader_.read_elements(prefix_ + name, 0, out);
    return {out.data<double>(), out.data<double>() + n};
  }
  bool has_weight(const std::string& set, const std::string& name) const {
    return has(set + "." + name) || has(set + "." + stack_of(name).first);
  }
  // The tensor of one checkpoint name: as it stands, or a slice of the experts' stack.
  std::vector<double> weight(const std::string& set, const std::string& name) const {
    if (has(set + "." + name)) return numbers(set + "." + name);
    const auto [stack, expert] = stack_of(name);
    const auto all = numbers(set + "." + stack);
    const std::size_t size = all.size() / kExperts;
    return {all.begin() + static_cast<std::ptrdiff_t>(expert * size),
            all.begin() + static_cast<std::ptrdiff_t>((expert + 1) * size)};
  }

 private:
  // "….experts.3.up_proj.weight" → {"….experts.up_proj", 3}
  static std::pair<std::string, std::size_t> stack_of(const std::string& name) {
    const std::string marker = ".experts.";
    const std::size_t found = name.find(marker);
    if (found == std::string::npos) return {name, 0};
    const std::size_t at = found + marker.size(), dot = name.find('.', at);
    return {name.substr(0, at) + name.substr(dot + 1, name.rfind('.') - dot - 1),
            std::stoul(name.substr(at, dot - at))};
  }
  std::shared_ptr<Backend> backend_ = Backend::cpu();
  SafetensorsReader reader_;
  std::string prefix_;
};

// The golden initial weights as a checkpoint for --init, with the shapes of the model.
void write_initial_weights(const Golden& golden, const Session& session, const std::string& path) {
  std::vector<SafetensorsWriter::Item> items;
  const Shares shares = weight_shares(session);
  std::vector<Piece> pieces = shares.whole;
  pieces.insert(pieces.end(), shares.sharded.begin(), shares.sharded.end());
  for (const Piece& piece : pieces) items.push_back({piece.name, DType::f64, piece.value.shape()});
  SafetensorsWriter writer(path, items);
  for (const Piece& piece : pieces) {
    const auto values = golden.weight("init", piece.name);
    const Tensor tensor = session.ranks.backend->empty(DType::f64, piece.value.shape());
    REQUIRE(static_cast<Index>(values.size()) == tensor.numel());
    std::ranges::copy(values, tensor.data<double>());
    writer.add(piece.name, tensor);
  }
  writer.finish();
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

void check_final(const Golden& golden, const std::string& set, const std::string& checkpoint,
                 double tolerance) {
  const SafetensorsReader weights(checkpoint + "/" + kModelFile);
  const auto backend = Backend::cpu();
  int compared = 0;  // the suite holds some of the tensors
  for (const auto& [name, entry] : weights.entries()) {
    if (!golden.has_weight(set, name)) continue;
    ++compared;
    const Tensor got = backend->empty(DType::f64, {entry.numel()});
    weights.read_elements(name, 0, got);
    CAPTURE(name);
    CHECK(largest_difference({got.data<double>(), got.data<double>() + got.numel()},
                             golden.weight(set, name)) < tolerance);
  }
  CHECK(compared > 3);
}

void check_loads(const TinyRun& run, const Golden& golden, Index first_moe) {
  const auto counts = golden.numbers("counts");  // [step, MoE layer, expert]
  const Index layers = static_cast<Index>(counts.size()) / kSteps / kExperts;
  for (Index layer = 0; layer < layers; ++layer) {
    const auto got = run.numbers("run", str("moe/", layer + first_moe, "/load_cv"));
    for (Index step = 0; step < kSteps; ++step) {
      const auto* at = counts.data() + (step * layers + layer) * kExperts;
      CHECK(got[static_cast<std::size_t>(step)] == summarize({at, at + kExperts}).cv);
    }
  }
}

void check_case(const Case& of, DType dtype) {
  CAPTURE(std::string(of.name));
  CAPTURE(name_of(dtype));
  const TinyRun run;
  const Golden golden(of);
  Report report;
  const RunConfig config = read_run_config(parse_recipe(recipe_of(of, dtype, run.path("text.txt")),
                                                        "golden", Source::Origin::recipe, report),
                                           report);
  REQUIRE_MESSAGE(!report.has_errors(), report.lines());
  const Corpus corpus{std::make_shared<Vocabulary>(),
                      std::make_shared<Recorded>(golden.tensor("tokens"))};
  const RunFolder folder(run.path("run"));
  std::ostringstream log;
  run_ranks(config, 1, [&](Rank& rank) {
    write_initial_weights(golden, Session(config, corpus, rank), run.path("init.safetensors"));
    const TrainJob job{config, corpus, nullptr, run.path("init.safetensors"),
                       "",     folder, log,     ProgressStyle{.quiet = true}};
    TrainLoop(job, rank).run();
  });

  const std::string set(name_of(dtype));
  const Tolerance limit = tolerance(dtype);
  const double loss_limit = dtype == DType::f64 ? limit.composed : limit.exact;
  CHECK(largest_deviation(run.numbers("run", "lr"), golden.numbers(set + ".lr")) <
        tolerance(DType::f64).exact);
  CHECK(largest_deviation(run.numbers("run", "loss"), golden.numbers(set + ".ce")) < loss_limit);
  CHECK(largest_deviation(run.numbers("run", "objective"), golden.numbers(set + ".loss")) <
        loss_limit);
  CHECK(largest_deviation(run.numbers("run", "grad_norm"), golden.numbers(set + ".grad_norm")) <
        10 * loss_limit);
  check_final(golden, set + ".final", run.path("run/checkpoints/step-30"), loss_limit);
  check_loads(run, golden, config.layer_kinds()[0] == "dense" ? 1 : 0);
  if (!golden.has(set + ".expert_bias")) return;
  const auto bias = golden.numbers(set + ".expert_bias");  // after each step's update
  const auto got = run.numbers("run", "moe/1/bias_max");   // before it
  for (Index step = 1; step < kSteps; ++step) {
    const auto* at = bias.data() + (step - 1) * 2 * kExperts;
    CHECK(got[static_cast<std::size_t>(step)] ==
          doctest::Approx(*std::max_element(at, at + kExperts)).epsilon(loss_limit));
  }
}

}  // namespace

TEST_CASE("thirty steps equal torch's: Qwen3-MoE, softmax with losses, sigmoid with bias") {
  for (const Case& of : kCases)
    for (const DType dtype : {DType::f64, DType::f32}) check_case(of, dtype);
}
