// moelab bench: figures of this machine, next to what it could reach.
#include <ostream>
#include <sstream>

#include "core/base/threads.h"
#include "core/cli/recipe_arguments.h"
#include "core/lab/bench_layer.h"
#include "core/lab/bench_ops.h"
#include "core/lab/bench_train.h"
#include "core/train/run_folder.h"
#include "registry/error.h"
#include "registry/text.h"

namespace moelab {
namespace {

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, separator);) parts.push_back(part);
  return parts;
}

DType dtype_argument(const Arguments& arguments) {
  const std::string name = arguments.text("dtype", "f32");
  if (name == "f32") return DType::f32;
  if (name == "f64") return DType::f64;
  throw Error(ExitCode::usage, str("--dtype = '", name, "' must be one of f32 f64"));
}

void ops(const Arguments& arguments, std::ostream& out) {
  OpBenchOptions options;
  options.filter = arguments.text("only");
  options.dtype = dtype_argument(arguments);
  set_threads(threads_argument(arguments));
  options.against = arguments.text("against");
  const std::vector<std::string> shapes = arguments.texts("shape");
  if (shapes.size() > 1) throw Error(ExitCode::usage, "bench ops takes one --shape");
  if (!shapes.empty()) options.shape = shapes[0];
  print_ops(options, bench_ops(options), arguments.has("json"), out);
}

void layer(const Arguments& arguments, std::ostream& out) {
  BenchLayerOptions options;
  std::vector<std::string> shapes = arguments.texts("shape");
  if (shapes.empty()) shapes = {"C1", "C2", "C3", "C4", "C5"};
  for (const std::string& shape : shapes) options.shapes.push_back(bench_shape(shape));
  if (arguments.has("routing")) options.routings = split(arguments.text("routing"), ',');
  if (arguments.has("way")) options.ways = split(arguments.text("way"), ',');
  options.dtype = dtype_argument(arguments);
  options.threads = threads_argument(arguments);
  options.rounds = static_cast<int>(arguments.integer("rounds", options.rounds, 1));
  options.json = arguments.has("json");
  options.against = arguments.text("against");
  bench_layer(options, out);
}

void training(const Arguments& arguments, const Streams& streams) {
  if (arguments.positionals() < 2)
    throw Error(ExitCode::usage,
                "train needs a RECIPE, e.g. recipes/quickstart.toml\nsee moelab bench --help");
  Report report;
  const RunConfig config = load_recipe_argument(arguments, streams, report, 1);
  BenchTrainOptions options;
  options.threads = threads_argument(arguments);
  options.steps = arguments.integer("steps", options.steps, 1);
  options.json = arguments.has("json");
  options.against = arguments.text("against");
  if (arguments.has("init")) options.init = find_weights(arguments.text("init"), streams.err);
  bench_train(config, options, streams.out);
}

int run(const Arguments& arguments, const Streams& streams) {
  const std::string& what = arguments.positional(0);
  if (what == "ops")
    ops(arguments, streams.out);
  else if (what == "layer")
    layer(arguments, streams.out);
  else
    training(arguments, streams);
  return 0;
}

const RegisterVerb registered{
    {.name = "bench",
     .summary = "time ops, one MoE layer, or a recipe's training steps",
     .positionals = {{"WHAT", "ops, layer or train", true, {"ops", "layer", "train"}},
                     {"RECIPE", "of train", false}},
     .options =
         {{"only", "TEXT", "ops: those whose name holds TEXT"},
          {"shape", "S",
           "layer: C1 to C5, C9 (decoding) or T,H,F,E,k; default: C1 to C5; ops: one of them or "
           "quickstart: the ops of a training step at that shape",
           true},
          {"routing", "R,…", "layer: uniform, zipf; default: both"},
          {"way", "W,…", "layer: members of the experts family; default: grouped,sequential"},
          {"dtype", "D", "layer, ops: f32 (default) or f64"},
          {"rounds", "N", "layer: how often all is repeated, interleaved; medians are shown"},
          {"steps", "N", "train: steps that are timed"},
          {"init", "PATH", "train: start from these weights, as moelab train"},
          {"against", "FILE",
           "figures of another program, JSON lines (docs/benchmarks.md): its fastest way and "
           "the ratio of times beside ours"},
          set_option(),
          threads_option(),
          {"json", "", "JSON lines instead of tables"}},
     .notes = "Examples: moelab bench layer --shape C2 --json, moelab bench train "
              "recipes/quickstart.toml",
     .run = run}};

}  // namespace
}  // namespace moelab
