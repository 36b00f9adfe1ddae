// One step's forward and backward, and what it leaves as numbers: losses and routing, summed over
// micro-batches and ranks. E experts.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/telemetry/metrics.h"
#include "core/telemetry/progress.h"
#include "core/train/batch.h"

namespace moelab {

class StepStats {
 public:
  void add(const ModelOutput& output);  // of one micro-batch, this rank
  // Sums over dp; afterwards every rank holds the same. `flag`: becomes the largest over ranks.
  void reduce(const RankContext& ranks, Index& flag);

  double loss_sum() const { return loss_sum_; }  // Σ −log p, nats
  // Σ coefficient · value over balancing losses.
  double balancing() const;
  std::map<Index, StepLoad> loads() const;  // by block
  std::vector<LayerLoad> layer_loads() const;
  double worst_balance() const;  // largest load max/mean over layers, 0 without MoE
  void write(MetricsRow& row) const;
  // What is not finite, in the model's order: "the router scores of layer 2", "" if nothing is.
  std::string non_finite(double loss) const;

 private:
  struct Term {
    std::string name;
    Index layer = -1;
    double value = 0, coefficient = 0;
    bool replicated = true;
  };
  struct Layer {
    Index layer = 0;
    std::vector<double> routed_E, kept_E, score_sum_E;
    double dropped = 0, valid = 0, entropy_sum = 0;
    double logit_max = 0, bias_min = 0, bias_max = 0;
  };
  // Calls `visit` on every number that adds up over ranks, in a fixed order.
  template <class F>
  void each_sum(const F& visit);

  double loss_sum_ = 0;
  std::vector<Term> terms_;
  std::vector<Layer> layers_;
};

// Routing and noise recorded elsewhere, for micro-batch m of this rank (in an evaluation: its m-th
// batch). What the options point to must live until the call that asked returns.
using Playback = std::function<ForwardOptions(Index m)>;

struct StepHooks {  // each may be empty
  Tape::Observer ops;
  ForwardHooks forward;  // its options, if given, go before playback
  Playback playback;
  std::function<void(Index m, const ModelOutput&)> output;  // before backward
};

// Forward and backward of all micro-batches; gradients are this rank's part of the gradient of
// (Σ −log p) / loss tokens + Σ coefficient · balancing loss. step is 0-based.
StepStats forward_backward(const Session& session, const StepBatch& batch, Index step,
                           const StepHooks& hooks = {});

}  // namespace moelab
