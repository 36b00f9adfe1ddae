// The loops around the register kernels: products of some rows with a whole matrix, and weight
// gradients, each on the calling thread. Every element of a result is summed over k in the same
// order whatever rows and panels come with it: who cuts the work differently gets the same bits.
#pragma once
#include <algorithm>

#include "core/backend/tile_kernels.h"
#include "core/tensor/tensor.h"

namespace moelab {

template <class T>
struct RowsOf {  // rows of a matrix, gathered where there is an index; −1 is a row of zeros
  const T* base = nullptr;
  Index stride = 0;
  const std::int32_t* index = nullptr;
  const T* zeros = nullptr;  // a row's length of them; needed with an index
  const T* operator()(Index r) const {
    if (!index) return base + r * stride;
    return index[r] < 0 ? zeros : base + index[r] * stride;
  }
};

// Row and column tiles of nearly equal size.
constexpr Index tiles_of(Index rows) { return (rows + kTileRows - 1) / kTileRows; }
constexpr Index tile_begin(Index rows, Index tile) { return rows * tile / tiles_of(rows); }
constexpr Index panels_of(Index columns) { return (columns + kTileColumns - 1) / kTileColumns; }

constexpr Index kBlockRows = 280;       // rows of A that share a pass over B
constexpr Index kPanelGroup = 4;        // panels that share a pass over A
constexpr Index kSumRows = 2048;        // terms of a weight gradient that are packed at once
constexpr Index kSumWords = 128 << 10;  // words of A packed at once for it

// Scratch memory of one thread.
template <class T>
class PackedSpace {
 public:
  // For sums over at most `terms`, by rows. In floats.
  static constexpr Index size(Index terms) {
    return rows_size(terms) + kPanels + kTiles + 2 * (pointers(terms) + kBlockRows);
  }
  PackedSpace(float* memory, Index terms)
      : a(memory),
        b(a + rows_size(terms)),
        c(b + kPanels),
        b_row(reinterpret_cast<const T**>(c + kTiles)),
        a_row(b_row + pointers(terms)) {}
  float *a, *b, *c;  // packed rows, two panels, result tiles
  const T **b_row, **a_row;

 private:
  static constexpr Index kPanels = 2 * kSumRows * kTileColumns;
  static constexpr Index kTiles = kPanelGroup * tiles_of(kBlockRows) * kTileRows * kTileColumns;
  static constexpr Index pointers(Index terms) { return std::max(terms, kSumRows) + kTileColumns; }
  static constexpr Index rows_size(Index terms) {
    const Index blocks = (terms + kPanelWords - 1) / kPanelWords;
    return std::max(blocks * tiles_of(kBlockRows) * kTileRows * kPackedRow,
                    kSumWords + kTileRows * kSumRows);
  }
};

// Of rows a(0 … rows), rows ≤ kBlockRows, with B of `panels` panels, the sum over `terms`.
//   kTransposed: source(panel, j) is column j of the panel, stored along k, null for zeros.
//   Else:        source(panel, k) is row k of B, which has `columns` columns.
//   lines(panel, row): lines that finish() will touch, as in FetchAhead (line, line_stride).
//   finish(panel, row, count, tile): rows [row, row + count) of the panel are summed up in
//   tile[count][32].
template <bool kTransposed, class T, class Source, class Lines, class Finish>
class RowProduct {
 public:
  struct Shape {
    Index rows = 0, terms = 0, columns = 0, panels = 0;
  };
  RowProduct(const TileKernels<T>& kernels, const PackedSpace<T>& space, const Shape& shape,
             const Source& source, const Lines& lines, const Finish& finish)
      : kernels_(kernels),
        space_(space),
        shape_(shape),
        source_(source),
        lines_(lines),
        finish_(finish) {}

  void run(const RowsOf<T>& a) {
    pack_rows(a);
    Place now;
    float *panel = space_.b, *following = space_.b + kPanelWords * kTileColumns;
    aim(now);
    pack(panel, now, 0, kPanelWords);
    while (now.group < shape_.panels) {
      const Place next = after(now);
      if (kTransposed && next.group < shape_.panels) aim(next);
      multiply(now, next, panel, following);
      std::swap(panel, following);
      now = next;
    }
  }

 private:
  struct Place {  // a panel's part: panels in groups; in a group block after block of k
    Index group = 0, block = 0, panel = 0;
  };

  Index blocks() const { return (shape_.terms + kBlock - 1) / kBlock; }
  Index words_of(const Place& at) const {
    if (at.group >= shape_.panels) return 0;
    const Index left = std::min(kBlock, shape_.terms - at.block * kBlock);
    return (left + kPerWord<T> - 1) / kPerWord<T>;
  }
  Place after(const Place& at) const {
    const Index end = std::min(shape_.panels, at.group + kPanelGroup);
    if (at.panel + 1 < end) return {at.group, at.block, at.panel + 1};
    if (at.block + 1 < blocks()) return {at.group, at.block + 1, at.group};
    return {end, 0, end};
  }

  void pack_rows(const RowsOf<T>& a) {
    for (Index r = 0; r < shape_.rows; ++r) space_.a_row[r] = a(r);
    for (Index block = 0; block < blocks(); ++block)
      for (Index t = 0; t < tiles_; ++t) {
        const Index begin = tile_begin(shape_.rows, t);
        kernels_.pack_rows(packed(block, t), space_.a_row + begin, rows_in(t), block * kBlock,
                           std::min(shape_.terms, (block + 1) * kBlock));
      }
  }
  float* packed(Index block, Index tile) const {
    return space_.a + (block * tiles_ + tile) * kTileRows * kPackedRow;
  }
  int rows_in(Index tile) const {
    return static_cast<int>(tile_begin(shape_.rows, tile + 1) - tile_begin(shape_.rows, tile));
  }

  void aim(const Place& at) {
    const Index count = kTransposed ? kTileColumns : shape_.terms;
    for (Index j = 0; j < count; ++j) space_.b_row[j] = source_(at.panel, j);
  }
  // Words [begin, end) of a panel's part.
  void pack(float* into, const Place& at, Index begin, Index end) {
    const Index from = at.block * kBlock + begin * kPerWord<T>;
    const Index to =
        std::min({shape_.terms, (at.block + 1) * kBlock, at.block * kBlock + end * kPerWord<T>});
    if (to <= from) return;
    if constexpr (kTransposed)
      kernels_.pack_panel_transposed(into + begin * kTileColumns, space_.b_row, from, to);
    else
      kernels_.pack_panel(into + begin * kTileColumns, space_.b_row + from,
                          static_cast<int>(to - from), at.panel * kTileColumns, shape_.columns);
  }

  // The next panel is packed in slices between the calls of the kernel; each slice was fetched
  // during the call before.
  void multiply(const Place& now, const Place& next, const float* panel, float* following) {
    const Index next_words = words_of(next);
    const Index slice = (next_words + tiles_ * kRun - 1) / (tiles_ * kRun) * kRun;
    const bool last = now.block + 1 == blocks();
    const auto words = static_cast<int>(words_of(now));
    for (Index t = 0; t < tiles_; ++t) {
      const Index begin = std::min(next_words, t * slice);
      const Index end = std::min(next_words, begin + slice);
      const Index row = tile_begin(shape_.rows, t);
      const int count = rows_in(t);
      FetchAhead ahead;
      if (last) lines_(now.panel, row, ahead);
      fetch_slice(next, begin, end, ahead);
      float* tile = space_.c;
      if (blocks() > 1) tile += ((now.panel - now.group) * tiles_ + t) * kTileRows * kTileColumns;
      kernels_.by_rows[static_cast<std::size_t>(count - 1)](words, packed(now.block, t), panel,
                                                            tile, now.block > 0, ahead);
      if (end > begin) pack(following, next, begin, end);
      if (last) finish_(now.panel, row, count, tile);
    }
  }
  void fetch_slice(const Place& at, Index begin, Index end, FetchAhead& ahead) const {
    const Index from = at.block * kBlock + begin * kPerWord<T>;
    ahead.row = reinterpret_cast<const char* const*>(space_.b_row);
    if (end <= begin) return;
    if constexpr (kTransposed) {
      ahead.rows = kTileColumns;
      ahead.left = space_.b_row[kTileColumns - 1]  // null rows have no lines
                       ? static_cast<int>(kTileColumns * ((end - begin + 31) / 32))
                       : 0;
      ahead.column = from * static_cast<Index>(sizeof(T));
    } else {
      const Index to = std::min(shape_.terms, at.block * kBlock + end * kPerWord<T>);
      ahead.row += from;
      ahead.rows = ahead.left = static_cast<int>(to - from);
      ahead.column = at.panel * kTileColumns * static_cast<Index>(sizeof(T));
    }
  }

  static constexpr Index kBlock = kPanelWords * kPerWord<T>;  // terms of a part
  static constexpr Index kRun = 16;                           // words that are packed at a time
  const TileKernels<T>& kernels_;
  const PackedSpace<T>& space_;
  Shape shape_;
  const Source& source_;
  const Lines& lines_;
  const Finish& finish_;
  Index tiles_ = tiles_of(shape_.rows);
};

template <bool kTransposed, class T, class Source, class Lines, class Finish>
void row_product(const TileKernels<T>& kernels, const PackedSpace<T>& space, const RowsOf<T>& a,
                 Index rows, Index terms, Index columns, Index panels, const Source& source,
                 const Lines& lines, const Finish& finish) {
  if (rows == 0 || panels == 0) return;
  RowProduct<kTransposed, T, Source, Lines, Finish>(kernels, space, {rows, terms, columns, panels},
                                                    source, lines, finish)
      .run(a);
}

struct ColumnShape {
  Index begin = 0, end = 0;  // rows of the result: columns of A
  Index rows = 0;            // summed over
  Index columns = 0;         // of B and of the result
};
// Rows of the result that a call of column_product should have, of `total`: what is packed at once
// stays in the cache.
Index column_block(Index rows, Index total);

// c[begin … end, columns] = Σ_r a(r)[m] · b(r)[n], or c += it; `c` is the whole result, of stride
// `columns`. stream: the result is larger than the caches and is written past them.
void column_product(const TileKernels<float>& kernels, const PackedSpace<float>& space,
                    const RowsOf<float>& a, const RowsOf<float>& b, const ColumnShape& shape,
                    bool add, bool stream, float* c);

}  // namespace moelab
