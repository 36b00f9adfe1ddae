// moelab train: a recipe from its first step to its report.
#include "core/train/trainer.h"

#include <ostream>

#include "core/cli/recipe_arguments.h"

namespace moelab {
namespace {

int run(const Arguments& arguments, const Streams& streams) {
  Report report;
  const RunConfig config = load_recipe_argument(arguments, streams, report);
  const TrainOptions options{.recipe = arguments.positional(0),
                             .out = arguments.text("out"),
                             .resume = arguments.text("resume", "none"),
                             .init = arguments.text("init"),
                             .threads = threads_argument(arguments),
                             .quiet = arguments.has("quiet")};
  return static_cast<int>(train(config, report, options, streams.out, streams.err));
}

const RegisterVerb registered{
    {.name = "train",
     .summary = "train what a recipe says and leave a run folder",
     .positionals = {recipe_positional()},
     .options =
         {{"out", "DIR", "the run's folder; default: run.folder, else runs/ and the recipe's name"},
          {"resume", "FROM",
           "none (default): start anew; auto: go on from the newest whole checkpoint in the "
           "run's folder, if any; or the folder of a run or checkpoint"},
          {"init", "PATH",
           "start from these weights: safetensors with Qwen3-MoE, Mixtral or our names, or the "
           "folder of a run or checkpoint, whose components' state (biases, prices) comes along"},
          set_option(),
          threads_option(),
          {"quiet", "", "no progress lines"}},
     .notes = "SIGTERM and Ctrl-C save a checkpoint and end with exit code 75 and 130.\n"
              "Example: moelab train recipes/quickstart.toml --out runs/mine --resume auto",
     .run = run}};

}  // namespace
}  // namespace moelab
