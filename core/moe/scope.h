// What is computed over several tokens has a scope that the recipe states and no layout changes:
//   sequence   a row of the batch
//   group      group_size consecutive rows of the global order (GShard's groups); may span ranks
//   batch      the whole global micro-batch over all ranks
// A ScopeMap says, for one micro-batch on one rank, which instance each token belongs to, and sums
// tables over the ranks that share instances. G instances; local rows touch a contiguous range of
// them.
#pragma once
#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/comm/world.h"
#include "core/moe/tokens.h"
#include "registry/params.h"
#include "registry/problem.h"

namespace moelab {

enum class ScopeKind : std::uint8_t { sequence, group, batch };
template <>
struct EnumNames<ScopeKind> {
  static constexpr std::array<std::pair<std::string_view, ScopeKind>, 3> value{
      {{"sequence", ScopeKind::sequence},
       {"group", ScopeKind::group},
       {"batch", ScopeKind::batch}}};
};

struct ScopeSpec {
  ScopeKind kind = ScopeKind::batch;
  Index group_size = 1;  // rows, for kind group
};

// The scope as components' recipes state it: two keys beside their own.
struct ScopeParams {
  ScopeKind scope = ScopeKind::batch;
  std::int64_t group_size = 0;
  void describe(ParamVisitor& v);
  // `rows`: sequences of a global micro-batch. Reports through the component's own table.
  void check(Index rows, Checker& checker) const;
  ScopeSpec spec() const { return {scope, group_size}; }
  // No instance spans ranks when `rows` are cut evenly over `ranks`.
  bool inside_rank(Index rows, Index ranks) const;
  std::string text() const;  // "each group of 4 sequences", for explain
};

class ScopeMap {
 public:
  // Collective over `dp` when instances span ranks (it sums the valid-token counts).
  ScopeMap(ScopeSpec spec, const Tokens& tokens, std::shared_ptr<Group> dp);

  Index instances() const { return instances_; }   // that this rank's tables have rows for
  Index first_instance() const { return first_; }  // global number of table row 0
  Index global_instances() const { return global_instances_; }  // of the micro-batch, all ranks
  Index instance_of(Index t) const;                             // table row of local token t
  bool inside_rank() const { return inside_rank_; }             // no instance spans ranks
  // The table row of every local token that is valid, −1 for padding.
  std::vector<std::int32_t> instance_of_valid(const Tokens& tokens) const;
  // Valid tokens of each instance, over all ranks that share it.
  const std::vector<Index>& valid() const { return valid_; }
  // Sums (or takes the maximum of) table [instances, …] (f32, f64, i64) over the ranks that share
  // instances. A no-op when inside_rank(). Deterministic.
  void reduce(const Tensor& table, Reduce op = Reduce::sum) const;
  // For ordered scans: the sum of `table` over lower ranks that share an instance (exclusive prefix
  // in global row order). i64 [instances, …] → same shape.
  void exclusive_prefix(const Tensor& table, const Tensor& out) const;
  const std::shared_ptr<Group>& group() const { return dp_; }
  const ScopeSpec& spec() const { return spec_; }

 private:
  ScopeSpec spec_;
  std::shared_ptr<Group> dp_;
  Index instances_ = 0, first_ = 0, global_instances_ = 0;
  Index rows_per_instance_ = 1, length_ = 1, first_row_ = 0;
  bool inside_rank_ = true;
  std::vector<Index> valid_;
};

// How many instances with at least one valid token a whole step has, for each kind in use. Known
// before the first forward, from the valid masks; the trainer computes it once a step.
Index count_instances(ScopeSpec spec, Index rows_global, const std::vector<Index>& valid_of_row);

// The C best of each (instance, expert) column over all ranks sharing the instance, exactly: lower
// tier first, then higher score, ties to the lower global token id. scores_PE-like input is a list
// of candidates.
struct Candidates {          // parallel arrays, one entry a (token, expert) pair
  std::vector<Index> token;  // local token
  std::vector<std::int32_t> expert;
  std::vector<double> score;       // f32 scores widen exactly
  std::vector<std::int32_t> tier;  // in [0, 2^16); empty: all 0
};
// kept[i] = 1 if candidate i is among the C = capacity[instance] best of its (instance, expert).
// Ranks exchange at most min(C, own) candidates an expert. Collective when instances span ranks.
std::vector<std::uint8_t> select_top_c(const Candidates& candidates,
                                       const std::vector<Index>& capacity, Index experts,
                                       const ScopeMap& scope, const Tokens& tokens);

}  // namespace moelab
