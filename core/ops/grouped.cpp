#include "core/ops/grouped.h"

#include <algorithm>

namespace moelab {

std::vector<RowTile> group_row_tiles(Index groups, const Index* offset_e1) {
  std::vector<RowTile> tiles;
  tiles.reserve(static_cast<std::size_t>(offset_e1[groups] / kGroupRowTile + groups));
  for (Index g = 0; g < groups; ++g)
    for (Index r = offset_e1[g]; r < offset_e1[g + 1]; r += kGroupRowTile)
      tiles.push_back({g, r, std::min(r + kGroupRowTile, offset_e1[g + 1])});
  return tiles;
}

std::vector<RowTile> group_weight_tiles(Index groups, Index rows) {
  std::vector<RowTile> tiles;
  tiles.reserve(static_cast<std::size_t>(groups * (rows / kGroupWeightTile + 1)));
  for (Index g = 0; g < groups; ++g)
    for (Index r = 0; r < rows; r += kGroupWeightTile)
      tiles.push_back({g, r, std::min(r + kGroupWeightTile, rows)});
  return tiles;
}

template <class T>
void rows_times_transposed(Index n, Index in, Index out, const T* x, const T* w_NK, const T* b_N,
                           const T* weight_n, T* y) {
  if (b_N) {
    for (Index r = 0; r < n; ++r) {
      const T w = weight_n ? weight_n[r] : T(1);
      for (Index j = 0; j < out; ++j) y[r * out + j] = w * b_N[j];
    }
  }
  GemmArgs<T> g;
  g.transpose_b = true;
  g.m = n, g.n = out, g.k = in;
  g.a = x, g.lda = in;
  g.b = w_NK, g.ldb = in;
  g.beta = b_N ? T(1) : T(0);
  g.c = y, g.ldc = out;
  gemm_one_thread(g);
}

template <class T>
void rows_times(Index n, Index in, Index out, const T* dy, const T* w_NK, T beta, T* dx) {
  GemmArgs<T> g;
  g.m = n, g.n = in, g.k = out;
  g.a = dy, g.lda = out;
  g.b = w_NK, g.ldb = in;
  g.beta = beta;
  g.c = dx, g.ldc = in;
  gemm_one_thread(g);
}

template <class T>
void weight_gradient(const RowTile& tile, Index begin, Index end, Index in, Index out, const T* dy,
                     const T* x, T beta, T* dw) {
  T* into = dw + tile.begin * in;
  if (begin == end) {
    if (beta == T(0)) std::fill_n(into, tile.rows() * in, T(0));
    return;
  }
  GemmArgs<T> g;
  g.transpose_a = true;
  g.m = tile.rows(), g.n = in, g.k = end - begin;
  g.a = dy + begin * out + tile.begin, g.lda = out;
  g.b = x + begin * in, g.ldb = in;
  g.beta = beta;
  g.c = into, g.ldc = in;
  gemm_one_thread(g);
}

template void rows_times_transposed<float>(Index, Index, Index, const float*, const float*,
                                           const float*, const float*, float*);
template void rows_times_transposed<double>(Index, Index, Index, const double*, const double*,
                                            const double*, const double*, double*);
template void rows_times<float>(Index, Index, Index, const float*, const float*, float, float*);
template void rows_times<double>(Index, Index, Index, const double*, const double*, double,
                                 double*);
template void weight_gradient<float>(const RowTile&, Index, Index, Index, Index, const float*,
                                     const float*, float, float*);
template void weight_gradient<double>(const RowTile&, Index, Index, Index, Index, const double*,
                                      const double*, double, double*);

}  // namespace moelab
