// Training as one rank does it: every rank runs the same loop, and whatever they must agree on
// (skipping, stopping) follows from numbers that are the same on all of them.
#pragma once
#include <chrono>
#include <iosfwd>
#include <memory>
#include <string>

#include "core/optim/gradients.h"
#include "core/telemetry/progress.h"
#include "core/train/evaluate.h"
#include "core/train/routing_pass.h"
#include "core/train/run_folder.h"
#include "core/train/step.h"

namespace moelab {

struct TrainJob {  // one run, as all ranks see it
  const RunConfig& config;
  const Corpus& corpus;
  const Checkpoint* from = nullptr;  // where to go on; null: at the start
  std::string init;                  // weights to start from; "": the recipe's initial values
  std::string recipe;                // resolved
  const RunFolder& folder;
  std::ostream& log;
  ProgressStyle style;
};

struct TrainOutcome {
  CheckpointMeta state;
  HeldoutResult heldout;  // complete only if eval.final
  std::string sample;     // "" unless sample.final
  std::string replay;     // how far free routing would have differed; "" without replay
  int signal = 0;         // that ended the run; 0: none
  bool out_of_time = false;
};

class TrainLoop {
 public:
  TrainLoop(const TrainJob& job, Rank& rank);  // builds or restores everything
  TrainOutcome run();

 private:
  MetricsRow step();  // one step of training, as a line of metrics
  void update(double rate, double norm, const StepStats& stats);
  void refuse_or_skip(const StepStats& stats, double loss, double norm);
  void measure(MetricsRow& row);
  HeldoutResult measure_heldout(Index max_rows, const std::function<bool()>& give_up = {});
  std::string sample();
  void save();
  void restore();
  Shares optimizer_shares() const;
  void show(const StepStats& stats, double tokens_per_second);
  Index stop_request(double seconds) const;  // this rank's wish, `seconds` into the step
  bool due(std::int64_t every) const { return every > 0 && state_.step % every == 0; }

  const TrainJob& job_;
  const RunConfig& config_;
  Session session_;
  Gradients gradients_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<Schedule> schedule_;
  CheckpointStore store_;
  RoutingInstruments instruments_;
  CheckpointMeta state_;
  Index steps_ = 0, saved_step_ = -1;
  bool has_heldout_;
  Index stop_ = 0;             // why to stop after this step, agreed by all ranks; 0: go on
  double seconds_before_ = 0;  // trained by earlier processes of this run
  Index steps_before_ = 0;
  std::unique_ptr<MetricsLog> metrics_;  // rank 0's
  std::unique_ptr<Progress> progress_;   // rank 0's
};

}  // namespace moelab
