#include "core/lab/machine_peak.h"

#include <omp.h>

#include <algorithm>
#include <cstring>
#include <vector>

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

// Eight sums, so that the loads and not the additions set the pace.
template <class T, int kBytes>
[[gnu::always_inline]] inline T sum_words(const T* words, Index count) {
  typedef T Vector __attribute__((vector_size(kBytes)));
  constexpr Index kLanes = kBytes / sizeof(T), kSums = 8;
  Vector sum[kSums] = {};
  Index i = 0;
  for (; i + kSums * kLanes <= count; i += kSums * kLanes) {
#pragma GCC unroll 8
    for (Index s = 0; s < kSums; ++s) {
      Vector next;
      std::memcpy(&next, words + i + s * kLanes, sizeof next);
      sum[s] += next;
    }
  }
  T total = 0;
  for (; i < count; ++i) total += words[i];
  for (Index s = 0; s < kSums; ++s)
    for (Index l = 0; l < kLanes; ++l) total += sum[s][l];
  return total;
}

using ReadKernel = std::int64_t (*)(const std::int64_t* words, Index count);
#if defined(__x86_64__)
[[gnu::target("avx512f"), gnu::noinline]] std::int64_t avx512_read(const std::int64_t* words,
                                                                   Index count) {
  return sum_words<std::int64_t, 64>(words, count);
}
[[gnu::target("avx2"), gnu::noinline]] std::int64_t avx2_read(const std::int64_t* words,
                                                              Index count) {
  return sum_words<std::int64_t, 32>(words, count);
}
#endif
[[gnu::noinline]] std::int64_t plain_read(const std::int64_t* words, Index count) {
  return sum_words<std::int64_t, 16>(words, count);
}

ReadKernel best_read() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return avx512_read;
  if (__builtin_cpu_supports("avx2")) return avx2_read;
#endif
  return plain_read;
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

ReadRoof::ReadRoof(const Backend& backend, Index bytes)
    : words_(backend.zeros(DType::i64, {std::max<Index>(1, bytes / 8)})) {}

double ReadRoof::slice() const {
  constexpr double kLeastSeconds = 0.01;
  const ReadKernel read = best_read();
  const Index team = threads(), count = words_.numel();
  const auto* const words = words_.data<std::int64_t>();
  std::vector<std::int64_t> sink(static_cast<std::size_t>(team));
  // Small buffers many times between two meetings of the threads, whose cost is no bandwidth.
  constexpr Index kWordsAtOnce = 2 << 20;
  const Index passes = std::max<Index>(1, kWordsAtOnce / count);
  double bytes = 0, seconds = 0;
  const double start = omp_get_wtime();
  do {
    parallel_ranges(team, 1, [&](Index begin, Index end) {
      for (Index i = begin; i < end; ++i) {
        const Index from = count * i / team, to = count * (i + 1) / team;
        for (Index pass = 0; pass < passes; ++pass) {
          asm volatile("" ::: "memory");  // every pass reads
          sink[static_cast<std::size_t>(i)] += read(words + from, to - from);
        }
      }
    });
    bytes += 8.0 * static_cast<double>(count * passes);
    seconds = omp_get_wtime() - start;
  } while (seconds < kLeastSeconds);
  return bytes / seconds / 1e9;
}

}  // namespace moelab
