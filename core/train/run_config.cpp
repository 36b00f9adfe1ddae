#include "core/train/run_config.h"

#include <charconv>

#include "core/train/recipe_page.h"
#include "core/train/run_config_checks.h"
#include "registry/listing.h"
#include "registry/plugin.h"
#include "registry/schema.h"

namespace moelab {

void RunSection::describe(ParamVisitor& v) {
  v("seed", seed, "of everything drawn; data.seed and model.seed may differ", at_least(0));
  v("dtype", dtype, "of weights, activations and optimizer state");
  v("device", device, "where tensors live: \"cpu\"");
  v("folder", folder, "default of --out; empty: runs/<recipe name>");
}

void DataSection::describe(ParamVisitor& v) {
  v("sequence_length", sequence_length, "tokens a row", between(1, 1e7));
  v("seed", seed, "of shuffling; -1: run.seed", at_least(-1));
  v("tokenizer", tokenizer, "text to tokens");
  v("dataset", dataset, "where the rows come from");
}

void TrainSection::describe(ParamVisitor& v) {
  v("steps", steps, "length of the run; give steps or tokens", between(0, 1e18));
  v("tokens", tokens, "length of the run in tokens; give steps or tokens", between(0, 1e18));
  v("batch", batch, "sequences a step, over all ranks", between(1, 1e7));
  v("accumulate", accumulate, "micro-batches a step; divides batch", between(1, 1e7));
  v("clip_norm", clip_norm, "largest global gradient norm; 0: no clipping", at_least(0));
  v("max_seconds", max_seconds, "stop after so long; changes nothing else; 0: no limit",
    at_least(0));
  v("checkpoint_every", checkpoint_every, "steps between checkpoints; 0: only at the end",
    at_least(0));
  v("keep_checkpoints", keep_checkpoints, "newest checkpoints kept", at_least(2));
  v("log_every", log_every, "steps between plain progress lines", at_least(1));
  v("non_finite", non_finite, "what a non-finite loss or gradient does: end the run, or skip");
  v("freeze_controllers", freeze_controllers, "balancers' controllers do not move");
}

void EvalSection::describe(ParamVisitor& v) {
  v("every", every, "steps between evaluations on held-out text; 0: only at the end", at_least(0));
  v("batch", batch, "rows at once; 0: train.batch / train.accumulate", at_least(0));
  v("max_rows", max_rows, "rows of evaluations during training; 0: all", at_least(0));
  v("final", final, "evaluate at the end, every row");
}

void SampleSection::describe(ParamVisitor& v) {
  v("every", every, "steps between samples of text; 0: only at the end", at_least(0));
  v("prompt", prompt, "what the text begins with");
  v("tokens", tokens, "tokens to generate", at_least(1));
  v("temperature", temperature, "of the distribution; 0: always the likeliest", at_least(0));
  v("top_p", top_p, "draw from the likeliest tokens of this total probability",
    Rule{0, 1, true, false});
  v("top_k", top_k, "draw from so many likeliest tokens; 0: all", at_least(0));
  v("seed", seed, "of the draws", at_least(0));
  v("final", final, "sample at the end");
}

void TraceSection::describe(ParamVisitor& v) {
  v("layers", layers, "blocks whose routing is recorded: \"all\", \"2, 4-7\" (the first is 0)");
  v("steps", steps,
    "steps whose routing is recorded, with the evaluations and samples made at them: \"all\", "
    "\"1-20, 100-1000/100\" (the first is 1); empty: none");
}

void ReplaySection::describe(ParamVisitor& v) {
  v("from", from,
    "force the routing recorded there: a run's folder, its trace folder or a file of it; steps and "
    "layers that it lacks are free; empty: all are");
}

void ParallelSection::describe(ParamVisitor& v) {
  v("world", world, "how ranks run and talk");
  v("ranks", ranks, "ranks of world inproc", between(1, 4096));
  v("tp", tp, "tensor-parallel ranks", at_least(1));
  v("pp", pp, "pipeline stages", at_least(1));
  v("ep", ep, "expert-parallel ranks", at_least(1));
  v("etp", etp, "tensor-parallel ranks of an expert", at_least(1));
  v("timeout_seconds", timeout_seconds, "longest wait for another rank", at_least(1));
}

namespace {

// [ffn.<name>] tables land in the map; their order is the map's.
class FfnTables final : public NamedSlots {
 public:
  explicit FfnTables(std::map<std::string, Component<Ffn>>& tables) : tables_(tables) {}
  Slot& add(std::string_view label) override { return tables_[std::string(label)]; }
  std::vector<std::pair<std::string, Slot*>> all() override {
    std::vector<std::pair<std::string, Slot*>> out;
    for (auto& [label, item] : tables_) out.emplace_back(label, &item);
    return out;
  }
  std::string_view family() const override { return Ffn::family; }

 private:
  std::map<std::string, Component<Ffn>>& tables_;
};

void describe(RunConfig& config, ParamVisitor& v) {
  FfnTables ffn(config.ffn);
  v("plugins", config.plugins,
    "shared libraries with further components; relative to the recipe that names them");
  v.section("run", config.run, "the run as a whole");
  v.section("model", config.model, "widths, layers and initial values");
  v("ffn", ffn, "feed-forward networks by name, for model.layers");
  v.section("data", config.data, "text and tokens");
  v.section("train", config.train, "length, batch and checkpoints");
  v.section("eval", config.eval, "measuring on held-out text");
  v.section("sample", config.sample, "generating text");
  v.section("trace", config.trace, "recording routing, into trace/ of the run's folder");
  v.section("replay", config.replay, "forcing recorded routing");
  v.section("parallel", config.parallel, "ranks and their layout");
  v("optimizer", config.optimizer, "how gradients change weights");
  v("schedule", config.schedule, "learning rate by step");
}

std::uint64_t seed_or(std::int64_t seed, std::int64_t fallback) {
  return static_cast<std::uint64_t>(seed >= 0 ? seed : fallback);
}

}  // namespace

std::string recipe_markdown() {
  RunConfig config;
  return "# Recipe keys\n\nEvery key of a recipe's tables, with its default. Components have "
         "parameters of their own: [components.md](components.md). Generated from the binary: "
         "`cmake --build --preset release --target docs`.\n" +
         parameters_markdown([&](ParamVisitor& v) { describe(config, v); }, "components.md");
}

std::string recipe_schema() {
  RunConfig config;
  return schema_json([&](ParamVisitor& v) { describe(config, v); }, "a recipe of moelab");
}

std::optional<LayerPattern> parse_layer_pattern(std::string_view text) {
  const std::size_t star = text.find('*');
  const std::string_view name = text.substr(0, star);
  if (!is_bare_key(name)) return {};
  if (star == std::string_view::npos) return LayerPattern{std::string(name), 1};
  std::int64_t count = 0;
  const char* end = text.data() + text.size();
  const auto [stop, failure] = std::from_chars(text.data() + star + 1, end, count);
  if (failure != std::errc() || stop != end || count < 1 || count > kMaxLayers) return {};
  return LayerPattern{std::string(name), count};
}

std::vector<std::string> RunConfig::layer_kinds() const {
  std::vector<std::string> out;
  for (const std::string& text : model.layers)
    if (const auto pattern = parse_layer_pattern(text))
      out.insert(out.end(), static_cast<std::size_t>(pattern->count), pattern->name);
  return out;
}

std::uint64_t RunConfig::model_seed() const { return seed_or(model.seed, run.seed); }
std::uint64_t RunConfig::data_seed() const { return seed_or(data.seed, run.seed); }

std::int64_t RunConfig::total_steps() const {
  return train.steps > 0 ? train.steps : train.tokens / (train.batch * data.sequence_length);
}

std::int64_t RunConfig::rows_per_evaluation() const {
  return eval.batch > 0 ? eval.batch : train.batch / train.accumulate;
}

Degrees RunConfig::degrees() const {
  return {parallel.ranks, parallel.tp, parallel.pp, parallel.ep, parallel.etp};
}

RunConfig read_run_config(const Node& root, Report& report) {
  const bool readable = !report.has_errors();
  RunConfig config;
  refuse_unbuilt_names(root, report);
  load_plugins(root, report);
  read_into(
      root, "", [&](ParamVisitor& v) { describe(config, v); }, report);
  if (readable) check_run_config(config, root, report);
  return config;
}

RunConfig load_run_config(const std::string& path, std::span<const std::string> sets,
                          Report& report) {
  const Node root = load_recipe(path, sets, report);
  RunConfig config;
  if (!report.has_errors() || !root.table()->empty()) config = read_run_config(root, report);
  if (report.has_errors()) throw Error(ExitCode::usage, report.lines());
  return config;
}

}  // namespace moelab
