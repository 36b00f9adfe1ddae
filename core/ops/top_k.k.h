// The k best of a row in one pass, best first, ties to the lower index. No scratch: the keys of the
// chosen are asked again.
#pragma once
#include <cstdint>

#include "core/backend/for_each.h"

namespace moelab::MOELAB_KERNELS {

template <class T>
class TopK {
 public:
  MOELAB_HD TopK(std::int32_t* best, Index k) : best_(best), k_(k) {}

  // Offers the indices [begin, end), not below those offered before. NaN beats nothing.
  template <class Key>
  MOELAB_HD void scan(Index begin, Index end, const Key& key) {
    Index i = begin;
    for (; i < end && filled_ < k_; ++i) insert(filled_++, i, key);
    constexpr Index kBlock = 16;  // most blocks hold nothing better: one vector comparison
    while (i < end) {
      const Index stop = i + kBlock < end ? i + kBlock : end;
      const T least = least_;
      int better = 0;
#pragma omp simd reduction(| : better)
      for (Index j = i; j < stop; ++j) better |= key(j) > least ? 1 : 0;
      if (better != 0)
        for (Index j = i; j < stop; ++j)
          if (key(j) > least_) insert(k_ - 1, j, key);
      i = stop;
    }
  }

 private:
  // Puts index i into place `at`, the last, and moves it up past everything smaller.
  template <class Key>
  MOELAB_HD void insert(Index at, Index i, const Key& key) {
    const T value = key(i);
    for (; at > 0 && value > key(best_[at - 1]); --at) best_[at] = best_[at - 1];
    best_[at] = static_cast<std::int32_t>(i);
    least_ = key(best_[filled_ - 1]);
  }

  std::int32_t* best_;
  Index k_, filled_ = 0;
  T least_ = T(0);
};

}  // namespace moelab::MOELAB_KERNELS
