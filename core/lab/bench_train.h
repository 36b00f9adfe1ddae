// `moelab bench train R`: some training steps of a recipe, timed: tokens a second and where the
// time goes, op by op. Nothing is written.
#pragma once
#include <iosfwd>
#include <string>

#include "core/train/run_config.h"

namespace moelab {

struct BenchTrainOptions {
  int threads = 1;  // of the process; each rank gets max(1, threads / ranks)
  Index steps = 10;
  Index warm = 2;  // steps before, not counted
  bool json = false;
  std::string init;     // weights to start from; "": the recipe's initial values
  std::string against;  // figures of another program (peer_figures.h); "": none
};

// A table, or JSON lines: the loss of every step, the warm ones too; then one with tokens_s_median
// and ms_median, then one an op with its milliseconds a step forward and backward and its share of
// the step. Times are rank 0's. Throws Error.
void bench_train(const RunConfig& config, const BenchTrainOptions& options, std::ostream& out);

}  // namespace moelab
