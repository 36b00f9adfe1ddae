// A small matrix product for operands that stay in the nearest caches (attention): no packing, no
// call overhead. C[m, n] (+)= Σ_k A(m, k) · B[k, n], one thread; sums run over k in order. Rows of
// B and C start at whole vectors; A is read one element at a time with any strides.
#pragma once
#include <array>
#include <cstdint>
#include <utility>

#include "core/tensor/tensor.h"

namespace moelab::simd {

#if defined(__AVX512F__)
constexpr Index kVectorBytes = 64, kTileRows = 12;
#elif defined(__AVX2__)
constexpr Index kVectorBytes = 32, kTileRows = 6;
#else
constexpr Index kVectorBytes = 16, kTileRows = 6;
#endif

template <class T>
constexpr Index kLanes = kVectorBytes / static_cast<Index>(sizeof(T));
template <class T>
constexpr Index round_up(Index n) {  // to whole vectors
  return (n + kLanes<T> - 1) / kLanes<T> * kLanes<T>;
}

template <class T>
struct Operand {  // element (i, k) is data[i·row + k·column]
  const T* data = nullptr;
  Index row = 0, column = 1;
};

// M rows and N vectors of C in registers.
template <class T, int M, int N>
void tile_product(Index k, Operand<T> a, const T* b, Index ldb, T* c, Index ldc, bool add) {
  typedef T Vector __attribute__((vector_size(kVectorBytes)));
  constexpr Index kWidth = kLanes<T>;
  Vector sum[M][N];
#pragma GCC unroll 16
  for (int i = 0; i < M; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < N; ++j)
      sum[i][j] = add ? *reinterpret_cast<const Vector*>(c + i * ldc + j * kWidth) : Vector{};
  for (Index p = 0; p < k; ++p, b += ldb) {
    Vector right[N];
#pragma GCC unroll 4
    for (int j = 0; j < N; ++j) right[j] = *reinterpret_cast<const Vector*>(b + j * kWidth);
    const T* left = a.data + p * a.column;
#pragma GCC unroll 16
    for (int i = 0; i < M; ++i) {
      const T value = left[i * a.row];
#pragma GCC unroll 4
      for (int j = 0; j < N; ++j) sum[i][j] += value * right[j];
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < M; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < N; ++j) *reinterpret_cast<Vector*>(c + i * ldc + j * kWidth) = sum[i][j];
}

template <class T>
using TileProduct = void (*)(Index, Operand<T>, const T*, Index, T*, Index, bool);
template <class T, int N>
constexpr auto tile_products() {  // by number of rows − 1
  return []<std::size_t... I>(std::index_sequence<I...>) {
    return std::array<TileProduct<T>, kTileRows>{tile_product<T, static_cast<int>(I) + 1, N>...};
  }(std::make_index_sequence<kTileRows>());
}

// rows ≤ kTileRows; n a multiple of kLanes.
template <class T>
void row_tile_product(Index rows, Index n, Index k, Operand<T> a, const T* b, Index ldb, T* c,
                      Index ldc, bool add) {
  static constexpr auto kOne = tile_products<T, 1>(), kTwo = tile_products<T, 2>();
  const std::size_t kind = static_cast<std::size_t>(rows - 1);
  Index j = 0;
  for (; j + 2 * kLanes<T> <= n; j += 2 * kLanes<T>) kTwo[kind](k, a, b + j, ldb, c + j, ldc, add);
  if (j < n) kOne[kind](k, a, b + j, ldb, c + j, ldc, add);
}

}  // namespace moelab::simd
