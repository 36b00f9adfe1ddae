// grouped_mlp over a GEMM library.
#include <algorithm>

#include "core/base/threads.h"
#include "core/ops/grouped.h"
#include "core/ops/grouped_mlp_variants.h"
#include "core/ops/simd_product.h"
#include "core/ops/worker_scratch.h"

namespace moelab {
namespace {

template <class T>
Tensor scratch(const Backend& backend, Index elements) {
  return backend.empty(DTypeOf<T>::value, {elements});
}

// Copies the source rows of rows [begin, end) to x_nH.
template <class T>
void gather_tile(const GroupedMlpArgs<T>& args, Index begin, Index end, T* x_nH) {
  for (Index r = begin; r < end; ++r, x_nH += args.hidden) {
    const Index s = args.row_R[r];
    if (s < 0)
      std::fill_n(x_nH, args.hidden, T(0));
    else
      std::copy_n(args.source_SH + s * args.hidden, args.hidden, x_nH);
  }
}

// Everything of backward that belongs to one tile of rows: dh over h, the activation again into
// a_RF, dweight, and the input's gradient.
template <class T>
struct BackwardTile {
  const GroupedMlpArgs<T>& args;
  const GroupedMlpGrads<T>& grads;
  T *h_RG, *a_RF, *x_RH, *dx_RH;
  const T* dy_RH;
  T dx_beta;
  T* dweight_R;

  void operator()(const RowTile& tile) const {
    const Index n = tile.rows(), H = args.hidden, F = args.width, G = args.up_width;
    const Index e = tile.group;
    T* a = a_RF + tile.begin * F;
    T* h = h_RG + tile.begin * G;
    const T* dy = dy_RH + tile.begin * H;
    rows_times(n, F, H, dy, args.down_eHF + e * H * F, T(0), a);
    ActivationRows<T> act;
    act.rows = n, act.width = F;
    act.h = h, act.dh = h;
    act.da = a, act.a = a;
    act.weight = args.weight_R ? args.weight_R + tile.begin : nullptr;
    act.dweight = dweight_R ? dweight_R + tile.begin : nullptr;
    args.activation->backward(act);
    if (dweight_R && args.down_bias_eH)
      for (Index r = 0; r < n; ++r)
        act.dweight[r] += simd::dot(H, dy + r * H, args.down_bias_eH + e * H);
    if (dx_RH) rows_times(n, H, G, h, args.up_eGH + e * G * H, dx_beta, dx_RH + tile.begin * H);
    if (x_RH) gather_tile(args, tile.begin, tile.end, x_RH + tile.begin * H);
  }
};

}  // namespace

template <class T>
void library_mlp_forward(const Backend& backend, const GroupedMlpArgs<T>& args, T* h_RG, T* y_RH) {
  const Index H = args.hidden, F = args.width, G = args.up_width;
  const auto tiles = group_row_tiles(args.groups, args.offset_e1);
  const WorkerScratch<T> space(backend, kGroupRowTile * (H + F + G));
  parallel_items(static_cast<Index>(tiles.size()), [&](Index i, int worker) {
    const RowTile& tile = tiles[static_cast<std::size_t>(i)];
    const Index n = tile.rows(), e = tile.group;
    T* a = space.of(worker);
    T* x = a + kGroupRowTile * F;
    T* h = h_RG ? h_RG + tile.begin * G : x + kGroupRowTile * H;
    const T* input = x;
    if (args.permuted)
      gather_tile(args, tile.begin, tile.end, x);
    else
      input = args.source_SH + tile.begin * H;
    const T* weight = args.weight_R ? args.weight_R + tile.begin : nullptr;
    rows_times_transposed<T>(n, H, G, input, args.up_eGH + e * G * H,
                             args.up_bias_eG ? args.up_bias_eG + e * G : nullptr, nullptr, h);
    ActivationRows<T> act;
    act.rows = n, act.width = F;
    act.h = h, act.a = a;
    act.weight = weight;
    args.activation->forward(act);
    rows_times_transposed<T>(n, F, H, a, args.down_eHF + e * H * F,
                             args.down_bias_eH ? args.down_bias_eH + e * H : nullptr, weight,
                             y_RH + tile.begin * H);
  });
}

template <class T>
void library_mlp_backward(const Backend& backend, const GroupedMlpArgs<T>& args, T* h_RG,
                          const T* dy_RH, const GroupedMlpGrads<T>& grads) {
  const Index R = args.rows, H = args.hidden, F = args.width, G = args.up_width;
  const bool wants_source = grads.source_SH.into != nullptr;
  const bool permuted = args.permuted;
  const Tensor a_RF = scratch<T>(backend, R * F);
  Tensor x_RH, dx_RH, dweight_R;
  if (permuted && grads.up_eGH.into) x_RH = scratch<T>(backend, R * H);
  if (permuted && wants_source) dx_RH = scratch<T>(backend, R * H);
  const bool adds_weight = grads.weight_R.into && grads.weight_R.beta != T(0);
  if (adds_weight) dweight_R = scratch<T>(backend, R);

  const BackwardTile<T> body{args,
                             grads,
                             h_RG,
                             a_RF.data<T>(),
                             x_RH ? x_RH.data<T>() : nullptr,
                             permuted ? (dx_RH ? dx_RH.data<T>() : nullptr) : grads.source_SH.into,
                             dy_RH,
                             permuted ? T(0) : grads.source_SH.beta,
                             adds_weight ? dweight_R.data<T>() : grads.weight_R.into};
  const auto tiles = group_row_tiles(args.groups, args.offset_e1);
  parallel_items(static_cast<Index>(tiles.size()),
                 [&](Index i) { body(tiles[static_cast<std::size_t>(i)]); });
  if (adds_weight) {
    const T* from = dweight_R.data<T>();
    for (Index r = 0; r < R; ++r) grads.weight_R.into[r] += from[r];
  }

  // Weight gradients: the rows of an expert are never split, its output is.
  const T* x = permuted ? (x_RH ? x_RH.data<T>() : nullptr) : args.source_SH;
  const auto up_tiles = group_weight_tiles(args.groups, G);
  const auto down_tiles = group_weight_tiles(args.groups, H);
  const Index ups = static_cast<Index>(up_tiles.size());
  parallel_items(ups + static_cast<Index>(down_tiles.size()), [&](Index i) {
    const bool up = i < ups;
    const RowTile& tile =
        up ? up_tiles[static_cast<std::size_t>(i)] : down_tiles[static_cast<std::size_t>(i - ups)];
    const Index e = tile.group, begin = args.offset_e1[e], end = args.offset_e1[e + 1];
    if (up) {
      if (grads.up_eGH.into)
        weight_gradient<T>(tile, begin, end, H, G, h_RG, x, grads.up_eGH.beta,
                           grads.up_eGH.into + e * G * H);
      if (grads.up_bias_eG.into)
        bias_gradient<T>(end - begin, G, tile.begin, tile.end, h_RG + begin * G, nullptr,
                         {grads.up_bias_eG.into + e * G, grads.up_bias_eG.beta});
    } else {
      if (grads.down_eHF.into)
        weight_gradient<T>(tile, begin, end, F, H, dy_RH, a_RF.data<T>(), grads.down_eHF.beta,
                           grads.down_eHF.into + e * H * F);
      if (grads.down_bias_eH.into)
        bias_gradient<T>(end - begin, H, tile.begin, tile.end, dy_RH + begin * H,
                         args.weight_R ? args.weight_R + begin : nullptr,
                         {grads.down_bias_eH.into + e * H, grads.down_bias_eH.beta});
    }
  });

  if (permuted && wants_source) sum_source_rows(backend, args, dx_RH.data<T>(), grads.source_SH);
}

template void library_mlp_forward<float>(const Backend&, const GroupedMlpArgs<float>&, float*,
                                         float*);
template void library_mlp_forward<double>(const Backend&, const GroupedMlpArgs<double>&, double*,
                                          double*);
template void library_mlp_backward<float>(const Backend&, const GroupedMlpArgs<float>&, float*,
                                          const float*, const GroupedMlpGrads<float>&);
template void library_mlp_backward<double>(const Backend&, const GroupedMlpArgs<double>&, double*,
                                           const double*, const GroupedMlpGrads<double>&);

}  // namespace moelab
