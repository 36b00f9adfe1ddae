#include "core/lab/machine_peak.h"

#include <omp.h>

#include "core/backend/gemm.h"
#include "core/base/threads.h"

namespace moelab {
namespace {

constexpr double kSliceSeconds = 0.02;

// `rounds` times kSums independent multiply-adds of kBytes-wide vectors; returns the FLOPs. Inlined
// into functions that fix the instruction set.
template <class T, int kBytes, int kSums>
[[gnu::always_inline]] inline double multiply_adds(Index rounds, T* sink) {
  typedef T Vector __attribute__((vector_size(kBytes)));
  constexpr int kLanes = kBytes / static_cast<int>(sizeof(T));
  Vector sum[kSums], factor, term;
  for (int l = 0; l < kLanes; ++l) factor[l] = T(0.9999), term[l] = T(0.0001);
#pragma GCC unroll 16
  for (int i = 0; i < kSums; ++i) sum[i] = term * static_cast<T>(i);
  for (Index r = 0; r < rounds; ++r) {
    asm volatile("" ::: "memory");  // one round at a time
#pragma GCC unroll 16
    for (int i = 0; i < kSums; ++i) sum[i] = sum[i] * factor + term;
  }
#pragma GCC unroll 16
  for (int i = 0; i < kSums; ++i) *sink += sum[i][0];
  return 2.0 * kLanes * kSums * static_cast<double>(rounds);
}

template <class T>
using Kernel = double (*)(Index rounds, T* sink);

#if defined(__x86_64__)
template <class T>
[[gnu::target("avx512f"), gnu::noinline]] double avx512_kernel(Index rounds, T* sink) {
  return multiply_adds<T, 64, 16>(rounds, sink);
}
template <class T>
[[gnu::target("avx2,fma"), gnu::noinline]] double avx2_kernel(Index rounds, T* sink) {
  return multiply_adds<T, 32, 12>(rounds, sink);
}
#endif
template <class T>
[[gnu::noinline]] double plain_kernel(Index rounds, T* sink) {
  return multiply_adds<T, 16, 12>(rounds, sink);
}

template <class T>
std::pair<Kernel<T>, const char*> best_kernel() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return {avx512_kernel<T>, "avx512 fma"};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    return {avx2_kernel<T>, "avx2 fma"};
#endif
  return {plain_kernel<T>, "compiler's choice"};
}

template <class T>
Peak slice() {
  const auto [kernel, name] = best_kernel<T>();
  static const Index rounds = [run = kernel] {  // about kSliceSeconds, found once
    T sink = 0;
    Index n = 1 << 16;
    for (;; n *= 4) {
      const double start = omp_get_wtime();
      run(n, &sink);
      const double seconds = omp_get_wtime() - start;
      if (seconds > kSliceSeconds / 4)
        return static_cast<Index>(static_cast<double>(n) * kSliceSeconds / seconds);
    }
  }();
  const Index team = threads();
  std::vector<T> sink(static_cast<std::size_t>(team));
  std::vector<double> flops(static_cast<std::size_t>(team));
  const double start = omp_get_wtime();
  parallel_ranges(team, 1, [&, run = kernel](Index begin, Index end) {
    for (Index i = begin; i < end; ++i)
      flops[static_cast<std::size_t>(i)] = run(rounds, &sink[static_cast<std::size_t>(i)]);
  });
  const double seconds = omp_get_wtime() - start;
  double total = 0;
  for (const double f : flops) total += f;
  return {total / seconds / 1e9, name};
}

}  // namespace

Peak fma_peak_slice(DType dtype) {
  return dispatch_real(dtype, "peak", []<class T>(T) { return slice<T>(); });
}

GemmRoof::GemmRoof(const Backend& backend, DType dtype, Index size)
    : a_(backend.zeros(dtype, {size, size})),
      b_(backend.zeros(dtype, {size, size})),
      c_(backend.empty(dtype, {size, size})) {}

double GemmRoof::slice() const {
  const Index n = a_.size(0);
  const double start = omp_get_wtime();
  dispatch_real(a_.dtype(), "gemm", [&]<class T>(T) {
    GemmArgs<T> g;
    g.transpose_b = true;
    g.m = g.n = g.k = g.lda = g.ldb = g.ldc = n;
    g.a = a_.data<T>(), g.b = b_.data<T>(), g.c = c_.data<T>();
    gemm(g);
  });
  const auto size = static_cast<double>(n);
  return 2 * size * size * size / (omp_get_wtime() - start) / 1e9;
}

}  // namespace moelab
