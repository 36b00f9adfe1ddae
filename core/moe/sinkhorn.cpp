#include "core/moe/sinkhorn.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/backend/backend.h"
#include "core/base/threads.h"
#include "core/ops/math.k.h"

namespace moelab {
namespace {

using MOELAB_KERNELS::fast_exp;

constexpr double kNothing = -std::numeric_limits<double>::infinity();

// log(exp(a) + exp(b))
double log_add(double a, double b) {
  const double most = std::max(a, b);
  return most == kNothing ? kNothing : most + std::log(std::exp(a - most) + std::exp(b - most));
}

// Sums of exponentials of many columns: most_E + log(sum_E), each relative to its own maximum.
struct ColumnSums {
  double* most_E;
  double* sum_E;
};

// Adds other columns' sums; `into` may hold nothing yet.
void merge(Index experts, const double* most_E, const double* sum_E, ColumnSums into) {
  for (Index e = 0; e < experts; ++e) {
    const double most = std::max(into.most_E[e], most_E[e]);
    if (most == kNothing) continue;
    into.sum_E[e] =
        into.sum_E[e] * std::exp(into.most_E[e] - most) + sum_E[e] * std::exp(most_E[e] - most);
    into.most_E[e] = most;
  }
}

// A stretch of valid tokens of one instance, short and of fixed length: the unit of work.
struct Chunk {
  Index instance = 0;
  std::vector<Index> tokens;
};

std::vector<Chunk> chunks_of(const ScopeMap& scope, const Tokens& tokens) {
  constexpr std::size_t kTokens = 128;
  std::vector<Chunk> out;
  const auto valid_T = tokens.valid_T.span<std::uint8_t>();
  for (Index t = 0; t < tokens.count(); ++t) {
    if (valid_T[static_cast<std::size_t>(t)] == 0) continue;
    const Index instance = scope.instance_of(t);
    if (out.empty() || out.back().instance != instance || out.back().tokens.size() == kTokens)
      out.push_back({instance, {}});
    out.back().tokens.push_back(t);
  }
  return out;
}

template <class T>
class Iteration {
 public:
  Iteration(const Tensor& logits_TE, const SinkhornRule& rule, const ScopeMap& scope,
            const Tokens& tokens)
      : rule_(rule),
        scope_(scope),
        logits_(logits_TE.data<T>()),
        experts_(logits_TE.size(1)),
        shared_(!scope.inside_rank()),
        first_(shared_ ? scope.first_instance() : 0),
        instances_(shared_ ? scope.global_instances() : scope.instances()),
        log_epsilon_(std::log(rule.epsilon)),
        chunks_(chunks_of(scope, tokens)) {
    log_row_T_.assign(static_cast<std::size_t>(tokens.count()), 0.0);
    log_column_GE_.assign(static_cast<std::size_t>(instances_ * experts_), 0.0);
    iterations_G_.assign(static_cast<std::size_t>(instances_), 0);
    open_G_.assign(static_cast<std::size_t>(instances_), 1);
    sums_G2E_ = Backend::cpu()->empty(DType::f64, {instances_, 2, experts_});
    partials_.resize(chunks_.size() * static_cast<std::size_t>(2 * experts_));
  }

  SinkhornFactors run() {
    // A rank decides from sums that all have, so that all take part in the same exchanges.
    for (Index i = 0; i < rule_.max_iterations && std::ranges::count(open_G_, 1) > 0; ++i) {
      parallel_items(static_cast<Index>(chunks_.size()), [&](Index c) { rows_and_columns(c); });
      add_up();
      for (Index g = 0; g < instances_; ++g)
        if (open_G_[static_cast<std::size_t>(g)] != 0) take_columns(g);
    }
    const auto begin = log_column_GE_.begin() + first_ * experts_;
    const auto own = iterations_G_.begin() + first_;
    return {std::move(log_row_T_),
            {begin, begin + scope_.instances() * experts_},
            {own, own + scope_.instances()}};
  }

 private:
  // log d0 of a chunk's tokens from log d1, and their part of the column sums of d0 · exp(l).
  void rows_and_columns(Index c) {
    const Chunk& chunk = chunks_[static_cast<std::size_t>(c)];
    const Index g = first_ + chunk.instance;
    if (open_G_[static_cast<std::size_t>(g)] == 0) return;
    const double* const b = log_column_GE_.data() + g * experts_;
    const Index experts = experts_;
    double* const most = partials_.data() + c * 2 * experts;
    double* const sum = most + experts;
    std::fill_n(most, experts, kNothing);
    std::fill_n(sum, experts, 0.0);
    const double log_tokens =
        std::log(static_cast<double>(scope_.valid()[static_cast<std::size_t>(chunk.instance)]));
    for (const Index t : chunk.tokens) {
      const T* const l = logits_ + t * experts;
      double high = kNothing, total = 0;
#pragma omp simd reduction(max : high)
      for (Index e = 0; e < experts; ++e) high = std::max(high, static_cast<double>(l[e]) + b[e]);
#pragma omp simd reduction(+ : total)
      for (Index e = 0; e < experts; ++e)
        total += fast_exp(static_cast<double>(l[e]) + b[e] - high);
      const double row = high == kNothing ? kNothing : high + std::log(total);
      const double a = log_row_T_[static_cast<std::size_t>(t)] =
          -log_tokens - log_add(row, log_epsilon_);
#pragma omp simd
      for (Index e = 0; e < experts; ++e)
        most[e] = std::max(most[e], a + static_cast<double>(l[e]));
    }
    for (const Index t : chunk.tokens) {
      const T* const l = logits_ + t * experts;
      const double a = log_row_T_[static_cast<std::size_t>(t)];
#pragma omp simd
      for (Index e = 0; e < experts; ++e)
        sum[e] += fast_exp(a + static_cast<double>(l[e]) - most[e]);
    }
  }

  ColumnSums sums_of(const Tensor& sums_G2E, Index g) const {
    double* const most = sums_G2E.data<double>() + g * 2 * experts_;
    return {most, most + experts_};
  }

  void clear(const Tensor& sums_G2E) const {
    for (Index g = 0; g < instances_; ++g) {
      std::fill_n(sums_of(sums_G2E, g).most_E, experts_, kNothing);
      std::fill_n(sums_of(sums_G2E, g).sum_E, experts_, 0.0);
    }
  }

  // Column sums of all instances: chunks in order, then ranks in order.
  void add_up() {
    clear(sums_G2E_);
    for (std::size_t c = 0; c < chunks_.size(); ++c) {
      const Index g = first_ + chunks_[c].instance;
      if (open_G_[static_cast<std::size_t>(g)] == 0) continue;
      const double* const most = partials_.data() + c * static_cast<std::size_t>(2 * experts_);
      merge(experts_, most, most + experts_, sums_of(sums_G2E_, g));
    }
    if (!shared_) return;
    const int ranks = scope_.group()->size();
    const Tensor all = Backend::cpu()->empty(DType::f64, {ranks * instances_, 2, experts_});
    scope_.group()->all_gather(sums_G2E_, all).wait();
    clear(sums_G2E_);
    for (Index i = 0; i < ranks * instances_; ++i) {
      const ColumnSums theirs = sums_of(all, i);
      merge(experts_, theirs.most_E, theirs.sum_E, sums_of(sums_G2E_, i % instances_));
    }
  }

  // log d1 of an instance from its column sums; closes the instance when it has settled.
  void take_columns(Index g) {
    const ColumnSums sums = sums_of(sums_G2E_, g);
    const double log_experts = std::log(static_cast<double>(experts_));
    double* const b = log_column_GE_.data() + g * experts_;
    double worst = 0, change = 0;
    bool empty = true;
    for (Index e = 0; e < experts_; ++e) {
      if (sums.most_E[e] == kNothing) continue;  // no token: the factor stays
      empty = false;
      const double column = sums.most_E[e] + std::log(sums.sum_E[e]);
      const double next = -log_experts - log_add(column, log_epsilon_);
      worst = std::max(worst, std::abs(std::expm1(b[e] - next)));
      change += std::abs(std::exp(b[e]) - std::exp(next));
      b[e] = next;
    }
    const auto at = static_cast<std::size_t>(g);
    if (!empty) ++iterations_G_[at];
    const double error =
        rule_.stop == SinkhornStop::column_error ? worst : change / static_cast<double>(experts_);
    if (empty || error <= rule_.tolerance) open_G_[at] = 0;
  }

  SinkhornRule rule_;
  const ScopeMap& scope_;
  const T* logits_;
  Index experts_;
  bool shared_;                // instances span ranks: tables hold all of them
  Index first_, instances_;    // of the tables
  double log_epsilon_;         // −∞ if 0
  std::vector<Chunk> chunks_;  // of this rank's instances
  std::vector<double> log_row_T_, log_column_GE_;
  std::vector<Index> iterations_G_;
  std::vector<std::uint8_t> open_G_;  // 1: not settled
  Tensor sums_G2E_;                   // maxima and sums
  std::vector<double> partials_;      // the same by chunk
};

}  // namespace

SinkhornFactors sinkhorn(const Tensor& logits_TE, const SinkhornRule& rule, const ScopeMap& scope,
                         const Tokens& tokens) {
  return dispatch_real(logits_TE.dtype(), "sinkhorn", [&](auto zero) {
    return Iteration<decltype(zero)>(logits_TE, rule, scope, tokens).run();
  });
}

}  // namespace moelab
