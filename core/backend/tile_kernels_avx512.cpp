// Register kernels for CPUs with AVX-512. This file alone is compiled for them: everything here has
// internal linkage, so that no code of it can be taken elsewhere.
#include <immintrin.h>

#include <utility>

#include "core/backend/tile_kernels.h"

namespace moelab {
namespace {

constexpr int kVector = 16;

__mmask16 mask(std::int64_t n) {
  return static_cast<__mmask16>(n >= kVector ? 0xFFFF : n <= 0 ? 0 : (1U << n) - 1);
}

void pack_rows(float* packed, const float* const* row, int rows, std::int64_t k0, std::int64_t k1) {
  for (int i = 0; i < rows; ++i, packed += kPackedRow) {
    const float* from = row[i] + k0;
    const float* ahead = row[i + 2 < rows ? i + 2 : rows - 1] + k0;
    for (std::int64_t k = 0; k < k1 - k0; k += kVector) {
      _mm_prefetch(ahead + k, _MM_HINT_T0);
      _mm512_storeu_ps(packed + k, _mm512_maskz_loadu_ps(mask(k1 - k0 - k), from + k));
    }
  }
}

void pack_columns(float* packed, const float* const* row, int count, std::int64_t m0, int width) {
  constexpr int kLinesAhead = 4;
  const __mmask16 columns = mask(width);
  for (int k = 0; k < count; ++k, packed += kVector) {
    _mm_prefetch(row[k + kLinesAhead < count ? k + kLinesAhead : k] + m0, _MM_HINT_T0);
    _mm512_storeu_ps(packed, _mm512_maskz_loadu_ps(columns, row[k] + m0));
  }
}

void pack_panel(float* packed, const float* const* row, int count, std::int64_t n0,
                std::int64_t n) {
  const __mmask16 first = mask(n - n0), second = mask(n - n0 - kVector);
  for (int k = 0; k < count; ++k, packed += kTileColumns) {
    const float* from = row[k] + n0;
    _mm512_storeu_ps(packed, _mm512_maskz_loadu_ps(first, from));
    _mm512_storeu_ps(packed + kVector, _mm512_maskz_loadu_ps(second, from + kVector));
  }
}

void transpose(__m512 (&r)[kVector]) {
  __m512 t[kVector];
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
  }
  for (int i = 0; i < 16; i += 4)
    for (int j = 0; j < 2; ++j) {
      const __m512d a = _mm512_castps_pd(t[i + j]), b = _mm512_castps_pd(t[i + j + 2]);
      r[i + 2 * j] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, b));
      r[i + 2 * j + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, b));
    }
  const auto quarters = [](__m512 a, __m512 b, __m512& even, __m512& odd) {
    even = _mm512_shuffle_f32x4(a, b, 0x88);
    odd = _mm512_shuffle_f32x4(a, b, 0xDD);
  };
  for (int i = 0; i < 4; ++i) {
    quarters(r[i], r[i + 4], t[i], t[i + 4]);
    quarters(r[i + 8], r[i + 12], t[i + 8], t[i + 12]);
  }
  for (int i = 0; i < 4; ++i) {
    quarters(t[i], t[i + 8], r[i], r[i + 8]);
    quarters(t[i + 4], t[i + 12], r[i + 4], r[i + 12]);
  }
}

void pack_panel_transposed(float* packed, const float* const* row, std::int64_t k0,
                           std::int64_t k1) {
  for (int half = 0; half < 2; ++half, row += kVector, packed += kVector)
    for (std::int64_t k = k0; k < k1; k += kVector) {
      __m512 r[kVector];
      const bool whole = row[kVector - 1] != nullptr && k1 - k >= kVector;
      const __mmask16 columns = mask(k1 - k);
      for (int i = 0; i < kVector; ++i)
        r[i] = whole    ? _mm512_loadu_ps(row[i] + k)
               : row[i] ? _mm512_maskz_loadu_ps(columns, row[i] + k)
                        : _mm512_setzero_ps();
      transpose(r);
      float* into = packed + (k - k0) * kTileColumns;
      for (int i = 0; i < kVector; ++i) _mm512_storeu_ps(into + i * kTileColumns, r[i]);
    }
}

// One word of k. `a` is at the words of its rows, kStride apart.
template <int kRows, int kStride>
[[gnu::always_inline]] inline void step(__m512 (&c)[kRows][2], const float* a, const float* b) {
  const __m512 b0 = _mm512_loadu_ps(b), b1 = _mm512_loadu_ps(b + kVector);
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
    __m512 v = _mm512_set1_ps(a[i * kStride]);
    asm("" : "+v"(v));  // one load for two products; folded into both, loads would be the limit
    c[i][0] = _mm512_fmadd_ps(v, b0, c[i][0]);
    c[i][1] = _mm512_fmadd_ps(v, b1, c[i][1]);
  }
}

// The sum over `words`, with the fetching ahead between its steps. kStride, kNext: words between
// rows, and between words of k.
template <int kRows, int kStride, int kNext>
[[gnu::always_inline]] inline void accumulate(__m512 (&c)[kRows][2], int words, const float* a,
                                              const float* b, const FetchAhead& ahead) {
  const int rounds = words / 4, every = rounds / 16 > 0 ? rounds / 16 : 1;
  int source = 0, next_touch = ahead.line[0] ? 0 : rounds, touched = 0;
  std::ptrdiff_t column = ahead.column;
  for (int i = 0; i < rounds; ++i, a += 4 * kNext, b += 4 * kTileColumns) {
    const bool fetch = i < ahead.left;
    const char* line = fetch ? ahead.row[source] + column : nullptr;
    if (i == next_touch) {
      for (std::size_t j = 0; j < 4; ++j)
        _mm_prefetch(ahead.line[j] + touched * ahead.line_stride[j], _MM_HINT_T0);
      next_touch += every;
      ++touched;
    }
    step<kRows, kStride>(c, a, b);
    if (fetch) _mm_prefetch(line, _MM_HINT_T0);
    step<kRows, kStride>(c, a + kNext, b + kTileColumns);
    if (++source == ahead.rows) {
      source = 0;
      column += 128;
    }
    step<kRows, kStride>(c, a + 2 * kNext, b + 2 * kTileColumns);
    if (fetch) _mm_prefetch(line + 64, _MM_HINT_T0);
    step<kRows, kStride>(c, a + 3 * kNext, b + 3 * kTileColumns);
  }
  for (int i = rounds * 4; i < words; ++i, a += kNext, b += kTileColumns)
    step<kRows, kStride>(c, a, b);
}

template <int kRows, int kStride, int kNext>
[[gnu::noinline]] void multiply(int words, const float* a, const float* b, float* tile, bool add,
                                const FetchAhead& ahead) {
  __m512 c[kRows][2];
  const __mmask16 before = add ? 0xFFFF : 0;
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
    c[i][0] = _mm512_maskz_loadu_ps(before, tile + i * kTileColumns);
    c[i][1] = _mm512_maskz_loadu_ps(before, tile + i * kTileColumns + kVector);
  }
  accumulate<kRows, kStride, kNext>(c, words, a, b, ahead);
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
    _mm512_storeu_ps(tile + i * kTileColumns, c[i][0]);
    _mm512_storeu_ps(tile + i * kTileColumns + kVector, c[i][1]);
  }
}

template <int kRows>
[[gnu::noinline]] void stream(int words, const float* a, const float* b, float* into,
                              std::ptrdiff_t stride, const FetchAhead& ahead) {
  __m512 c[kRows][2] = {};
  accumulate<kRows, 1, kVector>(c, words, a, b, ahead);
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
    _mm512_stream_ps(into + i * stride, c[i][0]);
    _mm512_stream_ps(into + i * stride + kVector, c[i][1]);
  }
}

template <int... kLess>
constexpr TileKernels<float> table(std::integer_sequence<int, kLess...>) {
  return {"AVX-512",
          pack_rows,
          pack_columns,
          pack_panel,
          pack_panel_transposed,
          {multiply<kLess + 1, kPackedRow, 1>...},
          {multiply<kLess + 1, 1, kVector>...},
          {stream<kLess + 1>...},
          [] { _mm_sfence(); }};
}
constexpr TileKernels<float> kTable = table(std::make_integer_sequence<int, kTileRows>());

}  // namespace

const TileKernels<float>* tile_kernels() {
  static const bool present = __builtin_cpu_supports("avx512f") != 0;
  return present ? &kTable : nullptr;
}

}  // namespace moelab
