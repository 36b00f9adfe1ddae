// What this processor can do at most, measured beside what is judged by it.
#pragma once
#include <string>

#include "core/backend/backend.h"

namespace moelab {

struct Peak {
  double gflops = 0;   // all threads together
  std::string kernel;  // "avx512 fma", "avx2 fma", "compiler's choice"
};

// One slice of about 20 ms of fused multiply-adds in registers, no memory touched, on threads()
// threads at once. f32 or f64. The best of several slices is the processor's; a single one may be
// disturbed.
Peak fma_peak_slice(DType dtype);

// One product [n, n]·[n, n]ᵀ of n = size by the library that everything here uses, on threads()
// threads.
class GemmRoof {
 public:
  GemmRoof(const Backend& backend, DType dtype, Index size = 1024);
  double slice() const;  // GFLOP/s

 private:
  Tensor a_, b_, c_;
};

// Reading `bytes` of memory once, on threads() threads: from a cache where so much fits into one.
class ReadRoof {
 public:
  ReadRoof(const Backend& backend, Index bytes);
  double slice() const;  // GB/s, over about 10 ms at least

 private:
  Tensor words_;
};

}  // namespace moelab
