// A small matrix product for operands that stay in the nearest caches (attention): no packing, no
// call overhead. C[m, n] (+)= Σ_k A(m, k) · B[k, n], one thread; sums run over k in order. Rows of
// B and C start at whole vectors; A is read one element at a time with any strides.
#pragma once
#include <algorithm>
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

// How A is read: element (i, k) is data[i·stride + k] or, transposed, data[i + k·stride].
enum class Left : std::uint8_t { rows, transposed };

// M rows and N vectors of C in registers.
template <class T, Left kLeft, int M, int N>
void tile_product(Index k, const T* a, Index stride, const T* b, Index ldb, T* c, Index ldc,
                  bool add) {
  typedef T Vector __attribute__((vector_size(kVectorBytes)));
  constexpr Index kWidth = kLanes<T>;
  // Three rows an address register: base, base + stride, base + 2·stride.
  constexpr int kBases = kLeft == Left::rows ? (M + 2) / 3 : 1;
  const T* base[kBases];
#pragma GCC unroll 16
  for (int i = 0; i < kBases; ++i) base[i] = a + 3 * i * stride;
  Vector sum[M][N];
#pragma GCC unroll 16
  for (int i = 0; i < M; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < N; ++j)
      sum[i][j] = add ? *reinterpret_cast<const Vector*>(c + i * ldc + j * kWidth) : Vector{};
  const auto step = [&](Index p) {
    Vector right[N];
#pragma GCC unroll 4
    for (int j = 0; j < N; ++j) right[j] = *reinterpret_cast<const Vector*>(b + j * kWidth);
    b += ldb;
#pragma GCC unroll 16
    for (int i = 0; i < M; ++i) {
      const T value = kLeft == Left::rows ? base[i / 3][i % 3 * stride + p] : base[0][i];
#pragma GCC unroll 4
      for (int j = 0; j < N; ++j) sum[i][j] += value * right[j];
    }
    if constexpr (kLeft == Left::transposed) base[0] += stride;
  };
  constexpr Index kUnroll = 4;
  Index p = 0;
  for (; p + kUnroll <= k; p += kUnroll) {
#pragma GCC unroll 4
    for (Index u = 0; u < kUnroll; ++u) step(u);
    if constexpr (kLeft == Left::rows)
#pragma GCC unroll 16
      for (int i = 0; i < kBases; ++i) base[i] += kUnroll;
  }
  for (Index u = 0; p < k; ++p, ++u) step(u);
#pragma GCC unroll 16
  for (int i = 0; i < M; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < N; ++j) *reinterpret_cast<Vector*>(c + i * ldc + j * kWidth) = sum[i][j];
}

template <class T>
using TileProduct = void (*)(Index, const T*, Index, const T*, Index, T*, Index, bool);
template <class T, Left kLeft, int N>
constexpr auto tile_products() {  // by number of rows − 1
  return []<std::size_t... I>(std::index_sequence<I...>) {
    return std::array<TileProduct<T>, kTileRows>{
        tile_product<T, kLeft, static_cast<int>(I) + 1, N>...};
  }(std::make_index_sequence<kTileRows>());
}

// rows ≤ kTileRows; n a multiple of kLanes.
template <Left kLeft, class T>
void row_tile_product(Index rows, Index n, Index k, const T* a, Index stride, const T* b, Index ldb,
                      T* c, Index ldc, bool add) {
  static constexpr auto kOne = tile_products<T, kLeft, 1>(), kTwo = tile_products<T, kLeft, 2>();
  const std::size_t kind = static_cast<std::size_t>(rows - 1);
  Index j = 0;
  for (; j + 2 * kLanes<T> <= n; j += 2 * kLanes<T>)
    kTwo[kind](k, a, stride, b + j, ldb, c + j, ldc, add);
  if (j < n) kOne[kind](k, a, stride, b + j, ldb, c + j, ldc, add);
}

// Lanes of (a, b) by number: a's are 0 … N − 1, b's N … 2N − 1.
template <int S, int N, class Vector, int... l>
void exchange_pair(Vector& a, Vector& b, std::integer_sequence<int, l...>) {
  const Vector upper = __builtin_shufflevector(a, b, ((l & S) != 0 ? N + l - S : l)...);
  b = __builtin_shufflevector(a, b, ((l & S) != 0 ? N + l : l + S)...);
  a = upper;
}

// One step of a transposition in registers: exchanges the off-diagonal S × S blocks of every
// 2S × 2S block, then those within. (Eklundh 1972)
template <class T, int S, class Vector, int N>
void exchange_blocks(Vector (&row)[N]) {
#pragma GCC unroll 16
  for (int i = 0; i < N; ++i)
    if ((i & S) == 0) exchange_pair<S, N>(row[i], row[i + S], std::make_integer_sequence<int, N>{});
  if constexpr (S > 1) exchange_blocks<T, S / 2>(row);
}

// to[d·to_stride + t] = from[t·stride + d] for t < rows, d < columns; rows of `to` start at whole
// vectors.
template <class T>
void transpose(Index rows, Index columns, const T* from, Index stride, T* to, Index to_stride) {
  typedef T Vector __attribute__((vector_size(kVectorBytes)));
  typedef T Unaligned __attribute__((vector_size(kVectorBytes), aligned(alignof(T))));
  constexpr int kWidth = static_cast<int>(kLanes<T>);
  for (Index t = 0; t < rows; t += kWidth)
    for (Index d = 0; d < columns; d += kWidth) {
      if (t + kWidth <= rows && d + kWidth <= columns) {
        Vector row[kWidth];
#pragma GCC unroll 16
        for (int i = 0; i < kWidth; ++i)
          row[i] = *reinterpret_cast<const Unaligned*>(from + (t + i) * stride + d);
        exchange_blocks<T, kWidth / 2>(row);
#pragma GCC unroll 16
        for (int i = 0; i < kWidth; ++i)
          *reinterpret_cast<Vector*>(to + (d + i) * to_stride + t) = row[i];
      } else {
        for (Index j = d; j < std::min(columns, d + kWidth); ++j)
          for (Index i = t; i < std::min(rows, t + kWidth); ++i)
            to[j * to_stride + i] = from[i * stride + j];
      }
    }
}

// Σ a·b of any n numbers anywhere.
template <class T>
T dot(Index n, const T* a, const T* b) {
  T total = T(0);
#pragma omp simd reduction(+ : total)
  for (Index i = 0; i < n; ++i) total += a[i] * b[i];
  return total;
}

// The largest of n numbers, n a positive multiple of kLanes at a whole vector.
template <class T>
T largest(Index n, const T* x) {
  typedef T Vector __attribute__((vector_size(kVectorBytes)));
  constexpr int kWidth = static_cast<int>(kLanes<T>);
  Vector most = *reinterpret_cast<const Vector*>(x);
  for (Index j = kWidth; j < n; j += kWidth) {
    const Vector next = *reinterpret_cast<const Vector*>(x + j);
    most = next > most ? next : most;
  }
  T out = most[0];
  for (int l = 1; l < kWidth; ++l) out = most[l] > out ? most[l] : out;
  return out;
}

}  // namespace moelab::simd
