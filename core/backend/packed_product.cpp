#include "core/backend/packed_product.h"

#include "core/backend/panel_width.h"

namespace moelab {
namespace {

constexpr Index kLine = 64 / static_cast<Index>(sizeof(float));

// One chunk of at most kSumRows rows of the sum.
class ColumnChunk {
 public:
  ColumnChunk(const TileKernels<float>& kernels, const PackedSpace<float>& space,
              const ColumnShape& shape, Index first, Index rows)
      : kernels_(kernels),
        space_(space),
        shape_(shape),
        first_(first),
        rows_(rows),
        height_(shape.end - shape.begin),
        tiles_(tiles_of(height_)),
        slice_((rows + tiles_ - 1) / tiles_) {}

  void run(const RowsOf<float>& a, const RowsOf<float>& b, bool add, bool stream, float* c) {
    pack_a(a);
    for (Index r = 0; r < rows_; ++r) space_.b_row[r] = b(first_ + r);
    float *panel = space_.b, *following = space_.b + kSumRows * kTileColumns;
    kernels_.pack_panel(panel, space_.b_row, static_cast<int>(rows_), 0, shape_.columns);
    for (Index n0 = 0; n0 < shape_.columns; n0 += kTileColumns) {
      const bool streams = stream && n0 + kTileColumns <= shape_.columns;
      multiply(n0, panel, following, add, streams, c);
      std::swap(panel, following);
    }
  }

 private:
  // Few rows at a time over all tiles: what is read stays in the nearest cache.
  void pack_a(const RowsOf<float>& a) {
    constexpr Index kFew = 16;
    const float* row[kFew];
    for (Index r = 0; r < rows_; r += kFew) {
      const Index count = std::min(kFew, rows_ - r);
      for (Index i = 0; i < count; ++i) row[i] = a(first_ + r + i);
      for (Index t = 0; t < tiles_; ++t) {
        const Index begin = tile_begin(height_, t);
        kernels_.pack_columns(space_.a + (t * rows_ + r) * kWidth, row, static_cast<int>(count),
                              shape_.begin + begin,
                              static_cast<int>(tile_begin(height_, t + 1) - begin));
      }
    }
  }

  void multiply(Index n0, const float* panel, float* following, bool add, bool streams, float* c) {
    const Index next = n0 + kTileColumns;
    for (Index t = 0; t < tiles_; ++t) {
      const Index row = tile_begin(height_, t), count = tile_begin(height_, t + 1) - row;
      const Index begin = std::min(rows_, t * slice_);
      const Index end = next < shape_.columns ? std::min(rows_, begin + slice_) : begin;
      FetchAhead ahead;
      ahead.row = reinterpret_cast<const char* const*>(space_.b_row + begin);
      ahead.rows = static_cast<int>(std::max<Index>(1, end - begin));
      ahead.left = static_cast<int>(end - begin);
      ahead.column = next * static_cast<Index>(sizeof(float));
      const float* packed = space_.a + t * rows_ * kWidth;
      float* into = c + (shape_.begin + row) * shape_.columns + n0;
      const auto words = static_cast<int>(rows_);
      const auto at = static_cast<std::size_t>(count - 1);
      if (streams) {
        kernels_.stream[at](words, packed, panel, into, shape_.columns, ahead);
      } else {
        kernels_.by_columns[at](words, packed, panel, space_.c, false, ahead);
        const Index width = std::min<Index>(kTileColumns, shape_.columns - n0);
        (add ? add_columns : copy_columns)(count, width, space_.c, kTileColumns, into,
                                           shape_.columns);
      }
      if (end > begin)
        kernels_.pack_panel(following + begin * kTileColumns, space_.b_row + begin,
                            static_cast<int>(end - begin), next, shape_.columns);
    }
  }

  static constexpr Index kWidth = 16;  // words of a packed row of A
  const TileKernels<float>& kernels_;
  const PackedSpace<float>& space_;
  const ColumnShape& shape_;
  Index first_, rows_, height_, tiles_, slice_;
};

}  // namespace

Index column_block(Index rows, Index total) {
  constexpr Index kLeast = 4 * kTileRows, kMost = 40 * kTileRows;
  const Index words = std::max<Index>(1, std::min(rows, kSumRows));
  const Index fits = std::clamp(kSumWords / words / kTileRows * kTileRows, kLeast, kMost);
  const Index blocks = std::max<Index>(1, (total + fits - 1) / fits);
  return (total + blocks - 1) / blocks;
}

void column_product(const TileKernels<float>& kernels, const PackedSpace<float>& space,
                    const RowsOf<float>& a, const RowsOf<float>& b, const ColumnShape& shape,
                    bool add, bool stream, float* c) {
  const Index height = shape.end - shape.begin;
  if (height == 0 || shape.columns == 0) return;
  if (shape.rows == 0) {
    if (!add) std::fill_n(c + shape.begin * shape.columns, height * shape.columns, 0.0F);
    return;
  }
  // Past the caches go whole lines that are written once.
  const bool lines = shape.columns % kLine == 0 && reinterpret_cast<std::uintptr_t>(c) % 64 == 0;
  const bool streams = stream && lines && !add && shape.rows <= kSumRows;
  for (Index first = 0; first < shape.rows; first += kSumRows)
    ColumnChunk(kernels, space, shape, first, std::min(kSumRows, shape.rows - first))
        .run(a, b, add || first > 0, streams, c);
  if (streams) kernels.end_stream();
}

}  // namespace moelab
