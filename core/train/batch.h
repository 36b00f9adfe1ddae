// Rows of text as the model takes them, and what a whole step's text holds: known before the first
// forward, since cross-entropy is divided by the tokens of all micro-batches and ranks, and
// balancing losses by the scope instances. B rows of L tokens a rank and micro-batch, T = B·L.
#pragma once
#include <span>
#include <vector>

#include "core/train/session.h"

namespace moelab {

struct MicroBatch {
  Tokens tokens;
  Tensor target_T;  // i32, −1: no loss
};
// `rows` are rows [first_row, first_row + rows.size()) of a global micro-batch of rows_global.
MicroBatch make_micro_batch(const Backend& backend, std::span<const Row> rows, Index length,
                            Index first_row, Index rows_global);

// One step's rows of this rank. The global batch is cut into train.accumulate global micro-batches
// of consecutive rows, each of which is cut into one contiguous part a data-parallel rank.
class StepBatch {
 public:
  // step is 0-based. Collective over dp.
  StepBatch(const Session& session, const RunConfig& config, const Dataset& dataset, Index step);
  StepBatch(const StepBatch&) = delete;  // facts() refers to it
  StepBatch& operator=(const StepBatch&) = delete;

  Index micro_batches() const { return micro_batches_; }
  MicroBatch micro_batch(const Backend& backend, Index m) const;
  const StepFacts& facts() const { return facts_; }
  Index loss_tokens() const { return loss_tokens_; }  // of the whole step, all ranks
  Index valid_tokens() const { return facts_.valid_tokens_in_step; }

 private:
  void count_tokens(const Session& session);

  Index micro_batches_ = 1, rows_global_ = 0, rows_own_ = 0, first_row_ = 0, length_ = 0;
  std::vector<Row> rows_;                         // own rows, micro-batch after micro-batch
  std::vector<std::vector<Index>> valid_of_row_;  // [micro-batch][global row]
  Index loss_tokens_ = 0;
  StepFacts facts_;
};

}  // namespace moelab
