// `moelab bench train R`: some training steps of a recipe, timed: tokens a second and where the
// time goes, op by op. Nothing is written.
#pragma once
#include <iosfwd>

#include "core/train/run_config.h"

namespace moelab {

struct BenchTrainOptions {
  int threads = 1;  // of the process; each rank gets max(1, threads / ranks)
  Index steps = 10;
  Index warm = 2;  // steps before, not counted
  bool json = false;
};

// A table, or JSON lines: one with tokens_s_median and ms_median, then one an op with its
// milliseconds a step forward and backward and its share of the step. Times are rank 0's.
void bench_train(const RunConfig& config, const BenchTrainOptions& options, std::ostream& out);

}  // namespace moelab
