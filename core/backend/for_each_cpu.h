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

// Threads get whole blocks: where vector code ends and scalar code begins depends on n alone.
template <class F>
void for_each(Index n, const F& body) {
  constexpr Index kBlock = 64;
  const Index blocks = (n + kBlock - 1) / kBlock;
  parallel_ranges(blocks, kGrainElements / kBlock, [&](Index begin, Index end) {
    const Index last = std::min(n, end * kBlock);
#pragma omp simd
    for (Index i = begin * kBlock; i < last; ++i) body(i);
  });
}

// `width` is the work of a row in elements: small matrices stay on one thread.
template <class F>
void for_each_row(Index rows, Index width, const F& body) {
  parallel_ranges(rows, std::max<Index>(1, kGrainElements / std::max<Index>(1, width)),
                  [&](Index begin, Index end) {
                    for (Index r = begin; r < end; ++r) body(Team{}, r);
                  });
}

// Column reductions: body(begin, end) gets a block of columns and walks all rows itself, in order.
template <class F>
void for_each_column_block(Index columns, Index rows, const F& body) {
  constexpr Index kBlock = 32;
  const Index blocks = (columns + kBlock - 1) / kBlock;
  parallel_ranges(blocks, std::max<Index>(1, kGrainElements / (kBlock * std::max<Index>(1, rows))),
                  [&](Index begin, Index end) {
                    for (Index b = begin; b < end; ++b)
                      body(b * kBlock, std::min(columns, (b + 1) * kBlock));
                  });
}

}  // namespace moelab::MOELAB_KERNELS
