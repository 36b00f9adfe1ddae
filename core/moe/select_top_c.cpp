// The C best of a column over all ranks: every rank sorts its own candidates, the ranks exchange
// their best, and each reads off the place where the column ends.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/backend/backend.h"
#include "core/base/check.h"
#include "core/base/threads.h"
#include "core/moe/scope.h"

namespace moelab {
namespace {

struct Entry {
  Index tier = 0;
  double score = 0;
  Index id = 0;                               // global token
  bool operator<(const Entry& other) const {  // better first
    if (tier != other.tier) return tier < other.tier;
    return score != other.score ? score > other.score : id < other.id;
  }
};

// Tier and id travel as one number.
constexpr Index kIds = Index{1} << 47U;
Index packed(const Entry& entry) { return entry.tier * kIds + entry.id; }
Entry unpacked(Index number, double score) { return {number / kIds, score, number % kIds}; }

// Candidates of each column (instance · experts + expert) as indices into the list, best first.
struct Columns {
  std::vector<Index> offset, item;
};

Entry entry_of(const Candidates& candidates, Index i, const Tokens& tokens) {
  const auto at = static_cast<std::size_t>(i);
  const double score = candidates.score[at];
  return {candidates.tier.empty() ? 0 : candidates.tier[at],
          std::isnan(score) ? -std::numeric_limits<double>::infinity() : score,
          tokens.global_id(candidates.token[at])};
}

Columns sorted_columns(const Candidates& candidates, Index experts, const ScopeMap& scope,
                       const Tokens& tokens) {
  const std::size_t count = candidates.token.size();
  std::vector<Index> column(count);
  Columns out;
  out.offset.assign(static_cast<std::size_t>(scope.instances() * experts) + 1, 0);
  for (std::size_t i = 0; i < count; ++i) {
    column[i] = scope.instance_of(candidates.token[i]) * experts + candidates.expert[i];
    ++out.offset[static_cast<std::size_t>(column[i]) + 1];
  }
  std::partial_sum(out.offset.begin(), out.offset.end(), out.offset.begin());
  out.item.resize(count);
  std::vector<Index> next(out.offset.begin(), out.offset.end() - 1);
  for (std::size_t i = 0; i < count; ++i)
    out.item[static_cast<std::size_t>(next[static_cast<std::size_t>(column[i])]++)] =
        static_cast<Index>(i);
  parallel_items(static_cast<Index>(next.size()), [&](Index c) {
    const auto at = static_cast<std::size_t>(c);
    std::sort(out.item.begin() + out.offset[at], out.item.begin() + out.offset[at + 1],
              [&](Index a, Index b) {
                return entry_of(candidates, a, tokens) < entry_of(candidates, b, tokens);
              });
  });
  return out;
}

// For every local column, the entries of the other ranks that could be among its best.
class Exchange {
 public:
  // offer: entries this rank sends, by column; count_GE: how many a column, over all instances.
  Exchange(const ScopeMap& scope, Index experts, const std::vector<Index>& count,
           const std::vector<Entry>& offer)
      : group_(*scope.group()), backend_(Backend::cpu()) {
    columns_ = scope.global_instances() * experts;
    first_ = scope.first_instance() * experts;
    const Tensor mine = backend_->zeros(DType::i64, {columns_});
    std::copy(count.begin(), count.end(), mine.data<std::int64_t>() + first_);
    const Tensor counts = backend_->empty(DType::i64, {group_.size(), columns_});
    group_.all_gather(mine, counts).wait();
    for (int r = 0; r < group_.size(); ++r) {
      const auto* row = counts.data<std::int64_t>() + r * columns_;
      std::vector<Index>& begin = begin_.emplace_back(static_cast<std::size_t>(columns_) + 1, 0);
      std::partial_sum(row, row + columns_, begin.begin() + 1);
      longest_ = std::max(longest_, begin.back());
    }
    gather(offer);
  }

  // Entries of local column c on every rank, in no order.
  std::vector<Entry> column(Index c) const {
    std::vector<Entry> out;
    for (int r = 0; r < group_.size(); ++r) {
      const auto& begin = begin_[static_cast<std::size_t>(r)];
      const auto at = static_cast<std::size_t>(first_ + c);
      for (Index i = begin[at]; i < begin[at + 1]; ++i)
        out.push_back(unpacked(ids_.data<std::int64_t>()[r * longest_ + i],
                               scores_.data<double>()[r * longest_ + i]));
    }
    return out;
  }

 private:
  void gather(const std::vector<Entry>& offer) {
    const Tensor score = backend_->zeros(DType::f64, {longest_});
    const Tensor id = backend_->zeros(DType::i64, {longest_});
    for (std::size_t i = 0; i < offer.size(); ++i) {
      score.data<double>()[i] = offer[i].score;
      id.data<std::int64_t>()[i] = packed(offer[i]);
    }
    scores_ = backend_->empty(DType::f64, {group_.size(), longest_});
    ids_ = backend_->empty(DType::i64, {group_.size(), longest_});
    Pending pending_scores = group_.all_gather(score, scores_);
    Pending pending_ids = group_.all_gather(id, ids_);
    pending_scores.wait();
    pending_ids.wait();
  }

  Group& group_;
  std::shared_ptr<Backend> backend_;
  Index columns_ = 0, first_ = 0, longest_ = 0;
  std::vector<std::vector<Index>> begin_;  // by rank: where each column's entries begin
  Tensor scores_, ids_;
};

// Lowers `kept` (best entries of each local column) to what stays among all ranks' entries.
void meet_other_ranks(std::vector<Index>& kept, const std::vector<Entry>& offer,
                      const std::vector<Index>& capacity, Index experts, const ScopeMap& scope) {
  const Exchange exchange(scope, experts, kept, offer);
  auto own = offer.begin();
  for (std::size_t c = 0; c < kept.size(); ++c) {
    const auto end = own + kept[c];
    const Index room = capacity[c / static_cast<std::size_t>(experts)];
    std::vector<Entry> all = exchange.column(static_cast<Index>(c));
    if (static_cast<Index>(all.size()) > room && room > 0) {
      std::nth_element(all.begin(), all.begin() + (room - 1), all.end());
      kept[c] = std::upper_bound(own, end, all[static_cast<std::size_t>(room - 1)]) - own;
    }
    own = end;
  }
}

}  // namespace

std::vector<std::uint8_t> select_top_c(const Candidates& candidates,
                                       const std::vector<Index>& capacity, Index experts,
                                       const ScopeMap& scope, const Tokens& tokens) {
  MOELAB_CHECK(static_cast<Index>(capacity.size()) == scope.instances(), "capacities ",
               capacity.size(), ", instances ", scope.instances());
  const Columns columns = sorted_columns(candidates, experts, scope, tokens);
  const Index local_columns = scope.instances() * experts;
  std::vector<Index> kept(static_cast<std::size_t>(local_columns));
  for (Index c = 0; c < local_columns; ++c) {
    const auto at = static_cast<std::size_t>(c);
    kept[at] = std::min(columns.offset[at + 1] - columns.offset[at],
                        capacity[static_cast<std::size_t>(c / experts)]);
  }
  const auto item = [&](std::size_t c, Index i) {
    return columns.item[static_cast<std::size_t>(columns.offset[c] + i)];
  };
  if (!scope.inside_rank()) {
    std::vector<Entry> offer;
    for (std::size_t c = 0; c < kept.size(); ++c)
      for (Index i = 0; i < kept[c]; ++i) offer.push_back(entry_of(candidates, item(c, i), tokens));
    meet_other_ranks(kept, offer, capacity, experts, scope);
  }
  std::vector<std::uint8_t> keep(candidates.token.size(), 0);
  for (std::size_t c = 0; c < kept.size(); ++c)
    for (Index i = 0; i < kept[c]; ++i) keep[static_cast<std::size_t>(item(c, i))] = 1;
  return keep;
}

}  // namespace moelab
