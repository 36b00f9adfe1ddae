#include "core/moe/column_order.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>

#include "core/backend/backend.h"
#include "core/base/threads.h"

namespace moelab {
namespace {

constexpr double kLowest = -std::numeric_limits<double>::infinity();
constexpr int kDigitBits = 8, kDigits = 64 / kDigitBits;
constexpr Index kBuckets = Index{1} << kDigitBits;

double readable(double value) { return std::isnan(value) ? kLowest : value + 0.0; }  // −0 is 0

// Larger values have larger keys.
std::uint64_t key_of(double value) {
  const auto bits = std::bit_cast<std::uint64_t>(value);
  constexpr std::uint64_t kSign = std::uint64_t{1} << 63U;
  return (bits & kSign) != 0 ? ~bits : bits | kSign;
}

double value_of(std::uint64_t key) {
  constexpr std::uint64_t kSign = std::uint64_t{1} << 63U;
  return std::bit_cast<double>((key & kSign) != 0 ? key & ~kSign : ~key);
}

double between(double upper, double lower, double share) {
  return share == 0 ? upper : (1 - share) * upper + share * lower;
}

// Where no instance spans ranks: each column by itself.
void local_columns(const Tensor& values_TE, const std::vector<double>& rank_G,
                   const std::vector<std::int32_t>& instance_T, const Tensor& out_GE) {
  const Index experts = values_TE.size(1);
  std::vector<std::vector<Index>> tokens_G(rank_G.size());
  for (std::size_t t = 0; t < instance_T.size(); ++t)
    if (instance_T[t] >= 0)
      tokens_G[static_cast<std::size_t>(instance_T[t])].push_back(static_cast<Index>(t));
  const auto* values = values_TE.data<double>();
  parallel_items(out_GE.numel(), [&](Index c) {
    const auto g = static_cast<std::size_t>(c / experts);
    std::vector<double> column;
    for (const Index t : tokens_G[g]) column.push_back(readable(values[t * experts + c % experts]));
    if (column.empty()) return;
    const double last = static_cast<double>(column.size() - 1);
    const double rank = std::min(rank_G[g], last), whole = std::floor(rank);
    const auto at = column.begin() + static_cast<std::ptrdiff_t>(whole);
    std::nth_element(column.begin(), at, column.end(), std::greater<>());
    const double lower = at + 1 == column.end() ? *at : *std::max_element(at + 1, column.end());
    out_GE.data<double>()[c] = between(*at, lower, rank - whole);
  });
}

// Where they do: the key of the value at the rank is found digit by digit, highest first, from the
// numbers of values that share its beginning.
class SharedColumns {
 public:
  SharedColumns(const Tensor& values_TE, const std::vector<double>& rank_G, const ScopeMap& scope,
                const std::vector<std::int32_t>& instance_T)
      : values_(values_TE.data<double>()),
        experts_(values_TE.size(1)),
        scope_(scope),
        instance_T_(instance_T) {
    for (Index c = 0; c < scope.instances() * experts_; ++c) {
      const auto g = static_cast<std::size_t>(c / experts_);
      const double last = static_cast<double>(std::max<Index>(1, scope.valid()[g]) - 1);
      const double rank = std::min(rank_G[g], last);
      share_.push_back(rank - std::floor(rank));
      left_.push_back(static_cast<Index>(rank));
    }
    prefix_.assign(left_.size(), 0);
    equal_.assign(left_.size(), 0);
  }

  void find(const Tensor& out_GE) {
    for (int digit = 0; digit < kDigits; ++digit) take_digit(digit);
    const Tensor below_GE = below();
    for (std::size_t c = 0; c < prefix_.size(); ++c) {
      const double value = value_of(prefix_[c]);
      const bool repeated = left_[c] + 1 < equal_[c];
      const double lower = below_GE.data<double>()[c];
      out_GE.data<double>()[c] =
          between(value, repeated || lower == kLowest ? value : lower, share_[c]);
    }
  }

 private:
  // body(t, column, key) for the valid tokens of every expert, experts in parallel.
  template <class Body>
  void each(const Body& body) const {
    parallel_items(experts_, [&](Index e) {
      for (std::size_t t = 0; t < instance_T_.size(); ++t)
        if (instance_T_[t] >= 0)
          body(static_cast<std::size_t>(instance_T_[t] * experts_ + e),
               key_of(readable(values_[static_cast<Index>(t) * experts_ + e])));
    });
  }

  void take_digit(int digit) {
    const int shift = 64 - kDigitBits * (digit + 1);
    const auto columns = static_cast<Index>(prefix_.size());
    const Tensor count_CB =
        Backend::cpu()->zeros(DType::i64, {scope_.instances(), experts_, kBuckets});
    auto* count = count_CB.data<std::int64_t>();
    const auto beginning = [&](std::uint64_t key) {
      return digit == 0 ? 0 : key >> static_cast<unsigned>(shift + kDigitBits);
    };
    each([&](std::size_t c, std::uint64_t key) {
      if (beginning(key) == beginning(prefix_[c]))
        ++count[static_cast<Index>(c) * kBuckets +
                static_cast<Index>(key >> static_cast<unsigned>(shift) & (kBuckets - 1))];
    });
    scope_.reduce(count_CB);
    for (Index c = 0; c < columns; ++c) {
      const auto at = static_cast<std::size_t>(c);
      Index bucket = kBuckets - 1;
      for (; bucket > 0 && left_[at] >= count[c * kBuckets + bucket]; --bucket)
        left_[at] -= count[c * kBuckets + bucket];
      prefix_[at] |= static_cast<std::uint64_t>(bucket) << static_cast<unsigned>(shift);
      equal_[at] = count[c * kBuckets + bucket];
    }
  }

  // The largest value below the one found, −∞ if there is none.
  Tensor below() const {
    const Tensor most_GE = Backend::cpu()->empty(DType::f64, {scope_.instances(), experts_});
    std::ranges::fill(most_GE.span<double>(), kLowest);
    auto* most = most_GE.data<double>();
    each([&](std::size_t c, std::uint64_t key) {
      if (key < prefix_[c]) most[c] = std::max(most[c], value_of(key));
    });
    scope_.reduce(most_GE, Reduce::max);
    return most_GE;
  }

  const double* values_;
  Index experts_;
  const ScopeMap& scope_;
  const std::vector<std::int32_t>& instance_T_;
  // By column:
  std::vector<double> share_;          // how far towards the next value
  std::vector<Index> left_;            // rank among the values with this beginning
  std::vector<std::uint64_t> prefix_;  // the key as far as it is known
  std::vector<Index> equal_;           // values with this key
};

}  // namespace

Tensor column_at_rank(const Tensor& values_TE, const std::vector<double>& rank_G,
                      const ScopeMap& scope, const Tokens& tokens) {
  MOELAB_CHECK(static_cast<Index>(rank_G.size()) == scope.instances(), "ranks ", rank_G.size(),
               ", instances ", scope.instances());
  const std::vector<std::int32_t> instance_T = scope.instance_of_valid(tokens);
  const Tensor out_GE = Backend::cpu()->zeros(DType::f64, {scope.instances(), values_TE.size(1)});
  if (scope.inside_rank())
    local_columns(values_TE, rank_G, instance_T, out_GE);
  else
    SharedColumns(values_TE, rank_G, scope, instance_T).find(out_GE);
  return out_GE;
}

}  // namespace moelab
