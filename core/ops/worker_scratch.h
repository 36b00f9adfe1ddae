// Memory for the threads of a parallel loop: one block of the arena for all of them, taken before
// the loop, so that what is asked of the arena depends on no scheduling.
#pragma once
#include "core/backend/backend.h"
#include "core/base/threads.h"

namespace moelab {

template <class T>  // float or double
class WorkerScratch {
 public:
  // `elements` for each of the threads() workers of the calling thread's loops.
  WorkerScratch(const Backend& backend, Index elements)
      : stride_((elements + kAlign - 1) / kAlign * kAlign),
        block_(backend.empty(DTypeOf<T>::value, {threads() * stride_})) {}
  T* of(int worker) const { return block_.data<T>() + worker * stride_; }  // at a cache line

 private:
  static constexpr Index kAlign = 64 / static_cast<Index>(sizeof(T));
  Index stride_;
  Tensor block_;
};

}  // namespace moelab
