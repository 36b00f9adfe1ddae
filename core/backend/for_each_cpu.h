// The CPU side of for_each.h: OpenMP over rows, SIMD inside a row. Reductions run in a fixed order
// for a given build; the number of threads cannot change them, since a row is never split.
#pragma once
#include <algorithm>
#include <cstdint>

#include "core/base/threads.h"

namespace moelab::MOELAB_KERNELS {

using Index = std::int64_t;

class Team {
 public:
  static constexpr int lanes() { return 1; }
  static constexpr int lane() { return 0; }
  void meet() const {}  // what one lane wrote, the others may read after
  template <class F>
  void each(Index n, const F& f) const {
#pragma omp simd
    for (Index i = 0; i < n; ++i) f(i);
  }
  template <class T, class F>
  T sum(Index n, T zero, const F& f) const {
    T total = zero;
#pragma omp simd reduction(+ : total)
    for (Index i = 0; i < n; ++i) total += f(i);
    return total;
  }
  template <class T, class F>
  T max(Index n, T least, const F& f) const {
    T most = least;
#pragma omp simd reduction(max : most)
    for (Index i = 0; i < n; ++i) most = std::max(most, f(i));
    return most;
  }
};

constexpr Index kGrainElements = 16384;  // below this a loop stays on one thread

// The loops over a thread's share. Flattened, and with a body of their own whose captures stay in
// registers: a call that is not inlined, or a store that may change a capture, keeps a loop from
// vectorising.
template <class F>
[[gnu::flatten]] void walk(Index begin, Index end, const F body) {
#pragma omp simd
  for (Index i = begin; i < end; ++i) body(i);
}
template <class F>
[[gnu::flatten]] void walk_rows(Index begin, Index end, const F body) {
  for (Index r = begin; r < end; ++r) body(Team{}, r);
}
template <class F>
[[gnu::flatten]] void walk_columns(Index begin, Index end, const F body) {
  body(begin, end);
}

// Threads get whole blocks: where vector code ends and scalar code begins depends on n alone.
template <class F>
void for_each(Index n, const F& body) {
  constexpr Index kBlock = 64;
  const Index blocks = (n + kBlock - 1) / kBlock;
  parallel_ranges(blocks, kGrainElements / kBlock, [&](Index begin, Index end) {
    walk(begin * kBlock, std::min(n, end * kBlock), body);
  });
}

// `width` is the work of a row in elements: small matrices stay on one thread.
template <class F>
void for_each_row(Index rows, Index width, const F& body) {
  parallel_ranges(rows, std::max<Index>(1, kGrainElements / std::max<Index>(1, width)),
                  [&](Index begin, Index end) { walk_rows(begin, end, body); });
}

// Column reductions: body(begin, end) gets a block of columns and walks all rows itself, in order.
template <class F>
void for_each_column_block(Index columns, Index rows, const F& body) {
  constexpr Index kBlock = 32;
  const Index blocks = (columns + kBlock - 1) / kBlock;
  parallel_ranges(blocks, std::max<Index>(1, kGrainElements / (kBlock * std::max<Index>(1, rows))),
                  [&](Index begin, Index end) {
                    for (Index b = begin; b < end; ++b)
                      walk_columns(b * kBlock, std::min(columns, (b + 1) * kBlock), body);
                  });
}

}  // namespace moelab::MOELAB_KERNELS
