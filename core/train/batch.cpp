#include "core/train/batch.h"

#include <algorithm>

namespace moelab {

MicroBatch make_micro_batch(const Backend& backend, std::span<const Row> rows, Index length,
                            Index first_row, Index rows_global) {
  MicroBatch out;
  Tokens& tokens = out.tokens;
  tokens.rows = static_cast<Index>(rows.size());
  tokens.length = length;
  tokens.first_row = first_row;
  tokens.rows_global = rows_global;
  const Shape shape{tokens.count()};
  tokens.id_T = backend.empty(DType::i32, shape);
  tokens.position_T = backend.empty(DType::i32, shape);
  tokens.document_T = backend.empty(DType::i32, shape);
  tokens.valid_T = backend.empty(DType::u8, shape);
  out.target_T = backend.empty(DType::i32, shape);
  Index at = 0;
  for (const Row& row : rows) {
    MOELAB_CHECK(static_cast<Index>(row.input.size()) == length, "a row of ", row.input.size());
    std::ranges::copy(row.input, tokens.id_T.data<std::int32_t>() + at);
    std::ranges::copy(row.position, tokens.position_T.data<std::int32_t>() + at);
    std::ranges::copy(row.document, tokens.document_T.data<std::int32_t>() + at);
    std::ranges::copy(row.valid, tokens.valid_T.data<std::uint8_t>() + at);
    std::ranges::copy(row.target, out.target_T.data<std::int32_t>() + at);
    at += length;
  }
  return out;
}

StepBatch::StepBatch(const Session& session, const RunConfig& config, const Dataset& dataset,
                     Index step)
    : micro_batches_(config.train.accumulate),
      rows_global_(config.train.batch / config.train.accumulate),
      rows_own_(rows_global_ / session.ranks.dp->size()),
      first_row_(rows_own_ * session.ranks.dp->rank()),
      length_(config.data.sequence_length) {
  for (Index m = 0; m < micro_batches_; ++m)
    for (Index r = 0; r < rows_own_; ++r)
      rows_.push_back(dataset.train_row(step, m * rows_global_ + first_row_ + r));
  count_tokens(session);
  facts_.instances_in_step = [this](ScopeSpec spec) {
    Index instances = 0;
    for (const auto& valid : valid_of_row_) instances += count_instances(spec, rows_global_, valid);
    return instances;
  };
}

void StepBatch::count_tokens(const Session& session) {
  // Valid tokens of every row of the global batch, then the tokens with a target.
  const Index rows = micro_batches_ * rows_global_;
  const Tensor counts = session.ranks.backend->zeros(DType::i64, {rows + 1});
  std::int64_t* count = counts.data<std::int64_t>();
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    const Index m = static_cast<Index>(i) / rows_own_, r = static_cast<Index>(i) % rows_own_;
    count[m * rows_global_ + first_row_ + r] = std::ranges::count(rows_[i].valid, 1);
    count[rows] += std::ranges::count_if(rows_[i].target, [](auto target) { return target >= 0; });
  }
  session.ranks.dp->all_reduce(counts).wait();
  for (Index m = 0; m < micro_batches_; ++m)
    valid_of_row_.emplace_back(count + m * rows_global_, count + (m + 1) * rows_global_);
  loss_tokens_ = count[rows];
  for (Index row = 0; row < rows; ++row) facts_.valid_tokens_in_step += count[row];
}

MicroBatch StepBatch::micro_batch(const Backend& backend, Index m) const {
  const auto begin = static_cast<std::size_t>(m * rows_own_);
  return make_micro_batch(backend,
                          std::span(rows_).subspan(begin, static_cast<std::size_t>(rows_own_)),
                          length_, first_row_, rows_global_);
}

}  // namespace moelab
