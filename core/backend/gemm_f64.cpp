// C_MN = alpha·op(A)·op(B) + beta·C after Goto & van de Geijn (2008): blocks of op(A) and op(B) are
// copied into panels that a register tile of kTileRows × kTileColumns walks. Each element of C sums
// k in order inside a block of kBlockDepth and adds blocks in order, whatever m and n are.
#include "core/backend/gemm_f64.h"

#include <algorithm>
#include <memory>

namespace moelab {
namespace {

constexpr Index kTileRows = 6, kTileColumns = 16;
constexpr Index kBlockDepth = 256, kBlockRows = 96, kBlockColumns = 256;

using Lanes [[gnu::vector_size(64)]] = double;  // the compiler splits it on narrower machines
constexpr Index kLanes = 8, kVectors = kTileColumns / kLanes;

// Panels of `tile` columns of op(B) (or rows of op(A)), depth-major, short ones filled with zeros.
// Element (i, p) of the source is at source[i·across + p·along].
void pack(const double* source, Index across, Index along, Index count, Index depth, Index tile,
          double* panel) {
  for (Index first = 0; first < count; first += tile) {
    const Index width = std::min(tile, count - first);
    for (Index p = 0; p < depth; ++p, panel += tile) {
      const double* from = source + first * across + p * along;
      for (Index i = 0; i < width; ++i) panel[i] = from[i * across];
      for (Index i = width; i < tile; ++i) panel[i] = 0;
    }
  }
}

void register_tile(Index depth, const double* a, const double* b, double* out) {
  Lanes sum[kTileRows][kVectors] = {};
  for (Index p = 0; p < depth; ++p, a += kTileRows, b += kTileColumns) {
    Lanes right[kVectors];
    for (Index v = 0; v < kVectors; ++v) right[v] = *reinterpret_cast<const Lanes*>(b + v * kLanes);
#pragma GCC unroll 6
    for (Index i = 0; i < kTileRows; ++i)
#pragma GCC unroll 2
      for (Index v = 0; v < kVectors; ++v) sum[i][v] += a[i] * right[v];
  }
  for (Index i = 0; i < kTileRows; ++i)
    for (Index v = 0; v < kVectors; ++v)
      *reinterpret_cast<Lanes*>(out + i * kTileColumns + v * kLanes) = sum[i][v];
}

struct alignas(64) Panels {
  double a[kBlockRows * kBlockDepth];
  double b[kBlockColumns * kBlockDepth];
};

}  // namespace

void gemm_f64(const GemmArgs<double>& g) {
  static thread_local const std::unique_ptr<Panels> panels(new Panels);
  alignas(64) double tile[kTileRows * kTileColumns];
  const Index a_row = g.transpose_a ? 1 : g.lda, a_depth = g.transpose_a ? g.lda : 1;
  const Index b_column = g.transpose_b ? g.ldb : 1, b_depth = g.transpose_b ? 1 : g.ldb;
  for (Index j0 = 0; j0 < g.n; j0 += kBlockColumns)
    for (Index p0 = 0; p0 < g.k; p0 += kBlockDepth) {
      const Index columns = std::min(kBlockColumns, g.n - j0),
                  depth = std::min(kBlockDepth, g.k - p0);
      const double beta = p0 == 0 ? g.beta : 1.0;
      pack(g.b + j0 * b_column + p0 * b_depth, b_column, b_depth, columns, depth, kTileColumns,
           panels->b);
      for (Index i0 = 0; i0 < g.m; i0 += kBlockRows) {
        const Index rows = std::min(kBlockRows, g.m - i0);
        pack(g.a + i0 * a_row + p0 * a_depth, a_row, a_depth, rows, depth, kTileRows, panels->a);
        for (Index j = 0; j < columns; j += kTileColumns)
          for (Index i = 0; i < rows; i += kTileRows) {
            register_tile(depth, panels->a + i * depth, panels->b + j * depth, tile);
            const Index height = std::min(kTileRows, rows - i);
            const Index width = std::min(kTileColumns, columns - j);
            for (Index r = 0; r < height; ++r) {
              double* c = g.c + (i0 + i + r) * g.ldc + j0 + j;
              const double* sum = tile + r * kTileColumns;
              for (Index q = 0; q < width; ++q)
                c[q] = g.alpha * sum[q] + (beta == 0.0 ? 0.0 : beta * c[q]);
            }
          }
      }
    }
}

}  // namespace moelab
