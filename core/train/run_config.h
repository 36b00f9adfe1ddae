// A whole recipe, typed: every section with its parameters, defaults and docs, each said once.
#pragma once
#include <array>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/comm/world.h"
#include "core/data/dataset.h"
#include "core/model/model_section.h"
#include "core/moe/ffn.h"
#include "core/optim/optimizer.h"
#include "registry/recipe.h"

namespace moelab {

enum class RunDType : std::uint8_t { f32, f64 };
template <>
struct EnumNames<RunDType> {
  static constexpr std::array<std::pair<std::string_view, RunDType>, 2> value{
      {{"f32", RunDType::f32}, {"f64", RunDType::f64}}};
};
enum class NonFinitePolicy : std::uint8_t { raise, skip };
template <>
struct EnumNames<NonFinitePolicy> {
  static constexpr std::array<std::pair<std::string_view, NonFinitePolicy>, 2> value{
      {{"raise", NonFinitePolicy::raise}, {"skip", NonFinitePolicy::skip}}};
};

struct RunSection {  // [run]
  std::int64_t seed = 1;
  RunDType dtype = RunDType::f32;
  std::string device = "cpu";
  std::string folder;  // default of --out; "" = runs/<recipe name>
  void describe(ParamVisitor& v);
};

struct DataSection {  // [data]
  std::int64_t sequence_length = 128;
  std::int64_t seed = -1;  // of shuffling; −1: run.seed
  Component<Tokenizer> tokenizer{"byte"};
  Component<Dataset> dataset{"text"};
  void describe(ParamVisitor& v);
};

struct TrainSection {      // [train]
  std::int64_t steps = 0;  // of tokens and steps exactly one is given
  std::int64_t tokens = 0;
  std::int64_t batch = 32, accumulate = 1;
  double clip_norm = 1.0;  // 0: off
  double max_seconds = 0;  // 0: no limit
  std::int64_t checkpoint_every = 0, keep_checkpoints = 2;
  std::int64_t log_every = 1;
  NonFinitePolicy non_finite = NonFinitePolicy::raise;
  bool freeze_controllers = false;
  void describe(ParamVisitor& v);
};

struct EvalSection {          // [eval]
  std::int64_t every = 0;     // steps; 0: only at the end
  std::int64_t batch = 0;     // rows; 0: train.batch / train.accumulate
  std::int64_t max_rows = 0;  // for the evaluations during training; 0: all
  bool final = true;
  void describe(ParamVisitor& v);
};

struct SampleSection {     // [sample]
  std::int64_t every = 0;  // steps; 0: only at the end
  std::string prompt = "\n";
  std::int64_t tokens = 200;
  double temperature = 0.8, top_p = 1.0;
  std::int64_t top_k = 0, seed = 1;
  bool final = true;
  void describe(ParamVisitor& v);
};

struct TraceSection {          // [trace]
  std::string layers = "all";  // blocks, from 0
  std::string steps;           // as in metrics.jsonl, from 1; "": nothing is recorded
  void describe(ParamVisitor& v);
};

struct ReplaySection {  // [replay]
  std::string from;     // "": routing is free
  void describe(ParamVisitor& v);
};

struct ParallelSection {  // [parallel]
  Component<World> world{"inproc"};
  std::int64_t ranks = 1, tp = 1, pp = 1, ep = 1, etp = 1;
  std::int64_t timeout_seconds = 600;
  void describe(ParamVisitor& v);
};

struct RunConfig {
  std::vector<std::string> plugins;
  RunSection run;
  ModelSection model;
  std::map<std::string, Component<Ffn>> ffn;  // by table name
  DataSection data;
  TrainSection train;
  EvalSection eval;
  SampleSection sample;
  TraceSection trace;
  ReplaySection replay;
  ParallelSection parallel;
  Component<Optimizer> optimizer{"adamw"};
  Component<Schedule> schedule{"warmup_cosine"};

  // model.layers expanded: the ffn table of each block. {"dense", "moe*3"} → dense moe moe moe.
  std::vector<std::string> layer_kinds() const;
  std::uint64_t model_seed() const;
  std::uint64_t data_seed() const;
  std::int64_t total_steps() const;
  std::int64_t rows_per_evaluation() const;  // of a held-out batch, over all ranks
  Degrees degrees() const;
};

// What the checks of the feed-forward networks may know of a run.
Ffn::Facts ffn_facts(const RunConfig& config);

// Reads a recipe and checks it as a whole; every mistake goes into `report`. The result may be used
// only when report.has_errors() is false.
RunConfig read_run_config(const Node& root, Report& report);
// Load, read, check; throws Error(usage) with all problems, one a line. Warnings go to `warnings`.
RunConfig load_run_config(const std::string& path, std::span<const std::string> sets,
                          Report& report);

}  // namespace moelab
