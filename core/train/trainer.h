// `moelab train`: the whole life of a run, from the recipe to the last report.
#pragma once
#include <iosfwd>
#include <string>

#include "core/train/run_config.h"
#include "registry/error.h"

namespace moelab {

struct TrainOptions {
  std::string recipe;           // path as the user gave it; names the run's folder
  std::string out;              // --out; "": run.folder, else runs/<name of the recipe>
  std::string resume = "none";  // auto | none | folder of a run or of a checkpoint
  std::string init;             // --init: weights to start from; "": the recipe's initial values
  int threads = 1;              // of the process; each rank gets max(1, threads / ranks)
  bool quiet = false;
};

// Trains as `config` says, from the start or from a checkpoint, and leaves a run folder. Progress
// and warnings go to `log`, the final report to `out`. Returns ok, or saved_on_term / interrupted
// after a signal (state saved). Throws Error: usage (folder in use, recipe unfit to resume), data,
// checkpoint, numerical, communication, resources.
ExitCode train(const RunConfig& config, const Report& report, const TrainOptions& options,
               std::ostream& out, std::ostream& log);

}  // namespace moelab
