#include "core/moe/scope.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "core/base/check.h"

namespace moelab {
namespace {

// Small host tables for collectives; no backend is at hand here.
class HostStorage final : public Storage {
 public:
  explicit HostStorage(std::size_t bytes) : words_((bytes + 7) / 8 + 1, 0) {
    data_ = reinterpret_cast<std::byte*>(words_.data());
    bytes_ = bytes;
  }

 private:
  std::vector<std::uint64_t> words_;
};

Tensor host_zeros(DType dtype, Shape shape) {
  const auto bytes = static_cast<std::size_t>(shape.numel()) * size_of(dtype);
  return {std::make_shared<HostStorage>(bytes), 0, dtype, shape};
}

// A table of all instances with `table` at row `first`, the rest 0; [instances, elements a row].
Tensor spread(const Tensor& table, Index instances, Index first) {
  Index width = 1;
  for (int axis = 1; axis < table.rank(); ++axis) width *= table.size(axis);
  Tensor all = host_zeros(table.dtype(), {instances, width});
  if (table.numel() > 0)
    std::memcpy(all.rows(first, table.size(0)).raw(), table.raw(), table.bytes());
  return all;
}

template <class T>
void lowest_outside(const Tensor& all, Index first, Index count) {
  using Limits = std::numeric_limits<T>;
  const T least = Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
  T* values = all.data<T>();
  std::fill(values, values + first * all.size(1), least);
  std::fill(values + (first + count) * all.size(1), values + all.numel(), least);
}

// Rows that this rank has no share of must not win a maximum.
void fill_others_lowest(const Tensor& all, Index first, Index count) {
  if (all.dtype() == DType::f32) return lowest_outside<float>(all, first, count);
  if (all.dtype() == DType::f64) return lowest_outside<double>(all, first, count);
  lowest_outside<std::int64_t>(all, first, count);
}

Index rows_of_instance(ScopeSpec spec, Index rows_global) {
  switch (spec.kind) {
    case ScopeKind::sequence:
      return 1;
    case ScopeKind::group:
      return spec.group_size;
    case ScopeKind::batch:
      return std::max<Index>(1, rows_global);
  }
  return 1;
}

// The answer is the same on every rank, since it decides who joins a collective.
bool instances_inside_rank(Index rows_per_instance, Index rows, Index ranks) {
  return ranks == 1 || rows_per_instance == 1 ||
         (rows % ranks == 0 && (rows / ranks) % rows_per_instance == 0);
}

}  // namespace

ScopeMap::ScopeMap(ScopeSpec spec, const Tokens& tokens, std::shared_ptr<Group> dp)
    : spec_(spec), dp_(std::move(dp)), length_(tokens.length), first_row_(tokens.first_row) {
  rows_per_instance_ = rows_of_instance(spec, tokens.rows_global);
  MOELAB_CHECK(rows_per_instance_ > 0 && tokens.rows_global % rows_per_instance_ == 0, "groups of ",
               spec.group_size, " sequences do not divide the ", tokens.rows_global,
               " of a micro-batch");
  global_instances_ = tokens.rows_global / rows_per_instance_;
  first_ = first_row_ / rows_per_instance_;
  if (tokens.rows > 0)
    instances_ = (first_row_ + tokens.rows - 1) / rows_per_instance_ - first_ + 1;
  inside_rank_ =
      instances_inside_rank(rows_per_instance_, tokens.rows_global, dp_ ? dp_->size() : 1);
  MOELAB_CHECK(!inside_rank_ ||
                   (first_row_ % rows_per_instance_ == 0 && tokens.rows % rows_per_instance_ == 0),
               "rows [", first_row_, ", ", first_row_ + tokens.rows, ") of ", tokens.rows_global,
               " cut an instance of ", rows_per_instance_, " rows");
  const Tensor valid = host_zeros(DType::i64, {instances_});
  const auto mask = tokens.valid_T.span<std::uint8_t>();
  auto* count = valid.data<std::int64_t>();
  for (Index t = 0; t < tokens.count(); ++t)
    count[instance_of(t)] += mask[static_cast<std::size_t>(t)] != 0 ? 1 : 0;
  reduce(valid);
  valid_.assign(count, count + instances_);
}

void ScopeParams::describe(ParamVisitor& v) {
  v("scope", scope, "tokens that are taken together: a sequence, a group of sequences, the batch");
  v("group_size", group_size, "consecutive sequences of a group; only with scope = \"group\"",
    at_least(0));
}

void ScopeParams::check(Index rows, Checker& checker) const {
  if (scope != ScopeKind::group) {
    if (group_size != 0)
      checker.error("group_size", "has no effect with scope = \"", enum_name(scope),
                    "\"; remove it or set scope = \"group\"");
  } else if (group_size < 1) {
    checker.error("group_size", "must be at least 1 with scope = \"group\"");
  } else if (rows % group_size != 0) {
    checker.error("group_size", "does not divide the ", rows,
                  " sequences of a micro-batch (train.batch / train.accumulate)");
  }
}

bool ScopeParams::inside_rank(Index rows, Index ranks) const {
  return instances_inside_rank(rows_of_instance(spec(), rows), rows, ranks);
}

std::string ScopeParams::text() const {
  if (scope == ScopeKind::sequence) return "each sequence";
  if (scope == ScopeKind::batch) return "the micro-batch over all ranks";
  return str("each group of ", group_size, " sequences");
}

std::vector<std::int32_t> ScopeMap::instance_of_valid(const Tokens& tokens) const {
  std::vector<std::int32_t> instance_T(static_cast<std::size_t>(tokens.count()));
  const auto mask = tokens.valid_T.span<std::uint8_t>();
  for (Index t = 0; t < tokens.count(); ++t) {
    const auto at = static_cast<std::size_t>(t);
    instance_T[at] = mask[at] != 0 ? static_cast<std::int32_t>(instance_of(t)) : -1;
  }
  return instance_T;
}

Index ScopeMap::instance_of(Index t) const {
  return (first_row_ + t / length_) / rows_per_instance_ - first_;
}

void ScopeMap::reduce(const Tensor& table, Reduce op) const {
  if (inside_rank_) return;
  const Tensor all = spread(table, global_instances_, first_);
  if (op == Reduce::max) fill_others_lowest(all, first_, instances_);
  dp_->all_reduce(all, op).wait();
  if (table.numel() > 0)
    std::memcpy(table.raw(), all.rows(first_, instances_).raw(), table.bytes());
}

void ScopeMap::exclusive_prefix(const Tensor& table, const Tensor& out) const {
  std::fill_n(out.data<std::int64_t>(), out.numel(), 0);
  if (inside_rank_) return;
  const Tensor mine = spread(table, global_instances_, first_);
  const Index width = mine.size(1);
  const Tensor all = host_zeros(DType::i64, {dp_->size(), global_instances_, width});
  dp_->all_gather(mine, all).wait();
  auto* sum = out.data<std::int64_t>();
  for (int r = 0; r < dp_->rank(); ++r) {
    const auto* lower = all.data<std::int64_t>() + (r * global_instances_ + first_) * width;
    for (Index i = 0; i < out.numel(); ++i) sum[i] += lower[i];
  }
}

Index count_instances(ScopeSpec spec, Index rows_global, const std::vector<Index>& valid_of_row) {
  const Index rows = rows_of_instance(spec, rows_global);
  const auto total = static_cast<Index>(valid_of_row.size());
  Index instances = 0;
  for (Index begin = 0; begin < total; begin += rows) {
    const auto first = valid_of_row.begin() + begin;
    const auto last = valid_of_row.begin() + std::min(total, begin + rows);
    instances += std::any_of(first, last, [](Index valid) { return valid > 0; }) ? 1 : 0;
  }
  return instances;
}

}  // namespace moelab
