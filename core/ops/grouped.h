// Products over rows sorted by group (expert): the work is cut into (group, tile) items at fixed
// places, each done by one thread, so that neither skewed groups nor the number of threads can
// change a bit. R rows, e groups, K and N widths.
#pragma once
#include <vector>

#include "core/backend/gemm.h"

namespace moelab {

struct RowTile {
  Index group = 0, begin = 0, end = 0;  // rows of a group, or rows of a group's weight gradient
  Index rows() const { return end - begin; }
};

constexpr Index kGroupRowTile = 256;     // rows of an item
constexpr Index kGroupWeightTile = 128;  // rows of a weight gradient in an item

// Every group's rows in tiles of kGroupRowTile, in order; groups without rows give none.
std::vector<RowTile> group_row_tiles(Index groups, const Index* offset_e1);
// Every group's weight gradient [rows, ·] in tiles of kGroupWeightTile.
std::vector<RowTile> group_weight_tiles(Index groups, Index rows);

// y_nN = x_nK · w_NKᵀ (+ weight_n · b_N), on the calling thread. weight null: 1. beta 0: y is only
// written.
template <class T>
void rows_times_transposed(Index n, Index in, Index out, const T* x, const T* w_NK, const T* b_N,
                           const T* weight_n, T* y);
// dx_nK = beta·dx + dy_nN · w_NK.
template <class T>
void rows_times(Index n, Index in, Index out, const T* dy, const T* w_NK, T beta, T* dx);
// Rows [tile.begin, tile.end) of dw_NK = beta·dw + dyᵀ·x over rows [begin, end) of the tile's
// group; `dw` points to the group's gradient. No rows: zeros if beta is 0.
template <class T>
void weight_gradient(const RowTile& tile, Index begin, Index end, Index in, Index out, const T* dy,
                     const T* x, T beta, T* dw);

}  // namespace moelab
