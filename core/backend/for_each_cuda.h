// The CUDA side of for_each.h: a thread an element, a warp a row. Reductions run over lanes in a
// fixed tree, so that a build gives the same bits at every run. Only nvcc sees this file. Every
// launch is checked; a refused one is Error(resources) with CUDA's own words.
#pragma once
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "registry/error.h"

namespace moelab::MOELAB_KERNELS {

using Index = std::int64_t;

class Team {  // the 32 lanes of a warp; all of them call each member function
 public:
  MOELAB_HD static constexpr int lanes() { return 32; }
  MOELAB_HD static int lane() {
#if defined(__CUDA_ARCH__)
    return static_cast<int>(threadIdx.x % 32);
#else
    return 0;
#endif
  }
  // What one lane wrote, the others may read after.
  MOELAB_HD static void meet() {
#if defined(__CUDA_ARCH__)
    __syncwarp(kAllLanes);
#endif
  }
  template <class F>
  MOELAB_HD void each(Index n, const F& f) const {
    for (Index i = lane(); i < n; i += lanes()) f(i);
    meet();
  }
  template <class T, class F>
  MOELAB_HD T sum(Index n, T zero, const F& f) const {
    T total = T(0);
    for (Index i = lane(); i < n; i += lanes()) total += f(i);
#if defined(__CUDA_ARCH__)
    for (int distance = 16; distance > 0; distance /= 2)
      total += __shfl_xor_sync(kAllLanes, total, distance);
#endif
    return zero + total;
  }
  template <class T, class F>
  MOELAB_HD T max(Index n, T least, const F& f) const {
    T most = least;
    for (Index i = lane(); i < n; i += lanes()) most = larger(most, f(i));
#if defined(__CUDA_ARCH__)
    for (int distance = 16; distance > 0; distance /= 2)
      most = larger(most, __shfl_xor_sync(kAllLanes, most, distance));
#endif
    return most;
  }

 private:
  static constexpr unsigned kAllLanes = 0xFFFFFFFFU;
  template <class T>
  MOELAB_HD static T larger(T a, T b) {
    return a < b ? b : a;
  }
};

namespace launch {

constexpr unsigned kThreads = 256, kWarps = kThreads / 32, kMostBlocks = 65535;

template <class F>
__global__ void elements(Index n, F body) {
  const Index stride = Index{gridDim.x} * blockDim.x;
  for (Index i = Index{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += stride) body(i);
}

template <class F>
__global__ void rows(Index n, F body) {
  const Index stride = Index{gridDim.x} * kWarps;
  for (Index r = Index{blockIdx.x} * kWarps + threadIdx.x / 32; r < n; r += stride) body(Team{}, r);
}

inline unsigned blocks(Index n, Index per_block) {
  return static_cast<unsigned>(std::min<Index>(kMostBlocks, (n + per_block - 1) / per_block));
}

inline void check() {
  const cudaError_t error = cudaGetLastError();
  if (error != cudaSuccess)
    throw Error(ExitCode::resources,
                std::string("a CUDA kernel could not be launched: ") + cudaGetErrorString(error));
}

}  // namespace launch

template <class F>
void for_each(Index n, const F& body) {
  if (n <= 0) return;
  launch::elements<<<launch::blocks(n, launch::kThreads), launch::kThreads>>>(n, body);
  launch::check();
}

// `width` is the work of a row in elements; a warp walks it.
template <class F>
void for_each_row(Index rows, Index width, const F& body) {
  (void)width;
  if (rows <= 0) return;
  launch::rows<<<launch::blocks(rows, launch::kWarps), launch::kThreads>>>(rows, body);
  launch::check();
}

// Column reductions: a thread a column, which walks all rows itself, in order.
template <class F>
void for_each_column_block(Index columns, Index rows, const F& body) {
  (void)rows;
  for_each(columns, [=] MOELAB_HD(Index column) { body(column, column + 1); });
}

}  // namespace moelab::MOELAB_KERNELS
