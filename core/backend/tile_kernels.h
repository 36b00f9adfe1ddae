// The innermost parts of our own matrix products: what packs operands, and the register kernels
// over packed ones. One table a CPU family, chosen at run time; the loops around them are in
// packed_product.h.
//
// A product C[m, n] = Σ_k A[m, k] B[k, n] is computed in tiles of at most 14 rows and 32 columns.
// A "word" is 32 bits along k: one f32, or two neighbouring bf16. B is packed into panels of 32
// columns, [k word][32]; A into tiles, either row by row (the sum runs along its rows: copies, so
// that gathering rows costs nothing) or [k word][16] (the sum runs over its rows).
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

namespace moelab {

constexpr int kTileRows = 14;     // 28 accumulators, two vectors of B and one of A: 31 of 32
constexpr int kTileColumns = 32;  // also the columns of a panel
constexpr int kPanelWords = 512;  // of k, in one panel
// Words between packed rows of A; not a power of two, which would crowd a few sets of the cache.
constexpr int kPackedRow = kPanelWords + 16;

template <class T>
constexpr int kPerWord = 4 / static_cast<int>(sizeof(T));

// What a call of a kernel fetches into the cache meanwhile.
struct FetchAhead {
  // The source of the next panel: of each row two lines, then the lines that follow them.
  const char* const* row = nullptr;
  int rows = 1, left = 0;     // left: rows still to fetch, two lines each
  std::ptrdiff_t column = 0;  // bytes from the beginning of a row
  // What will be read and written of the tile's rows: up to four lines a row; null: nothing.
  std::array<const char*, 4> line{};
  std::array<std::ptrdiff_t, 4> line_stride{};
};

template <class T>  // float
struct TileKernels {
  const char* name;
  // `rows` ≤ 14 rows, each from row[i] + k0 to row[i] + k1, to packed[i][kPackedRow]; zeros up to a
  // multiple of 16 words.
  void (*pack_rows)(float* packed, const T* const* row, int rows, std::int64_t k0, std::int64_t k1);
  // Columns m0 … m0 + width ≤ 14 of rows row[0 … count): packed[k word][16].
  void (*pack_columns)(float* packed, const T* const* row, int count, std::int64_t m0, int width);
  // Columns n0 … n0 + 32 (zeros from n on) of rows row[0 … count), which run along k.
  void (*pack_panel)(float* packed, const T* const* row, int count, std::int64_t n0,
                     std::int64_t n);
  // The same of B stored [n, k]: row[0 … 32) are the panel's columns, null for zeros; k0 … k1.
  void (*pack_panel_transposed)(float* packed, const T* const* row, std::int64_t k0,
                                std::int64_t k1);
  // tile[rows][32] (+)= A·B over `words`; by rows − 1. A packed by rows, then by columns.
  using Multiply = void (*)(int words, const float* a, const float* b, float* tile, bool add,
                            const FetchAhead& ahead);
  std::array<Multiply, kTileRows> by_rows, by_columns;
  // by_columns, written past the caches: c has whole lines at a stride of `stride` floats.
  using Stream = void (*)(int words, const float* a, const float* b, float* c,
                          std::ptrdiff_t stride, const FetchAhead& ahead);
  std::array<Stream, kTileRows> stream;
  void (*end_stream)();  // before another thread reads what was streamed
};

// The fastest that this CPU has; null: none, the library's products are taken.
const TileKernels<float>* tile_kernels();

}  // namespace moelab
