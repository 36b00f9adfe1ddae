// grouped_mlp over our own kernels. Work items are blocks of an expert's rows, which a thread takes
// through both projections, and blocks of a weight gradient's rows. R rows, H hidden, F width, G =
// F or 2F columns of the up projection; a gated activation's panel is 16 gates and the 16 ups that
// belong to them, so that it needs nothing but the tile.
#include "core/backend/packed_product.h"
#include "core/backend/panel_width.h"
#include "core/base/threads.h"
#include "core/ops/grouped.h"
#include "core/ops/grouped_mlp_variants.h"
#include "core/ops/simd_product.h"
#include "core/ops/worker_scratch.h"

namespace moelab {
namespace {

using Args = GroupedMlpArgs<float>;

constexpr Index kPad = 16;  // floats after a row of scratch, which keep rows out of the same sets
constexpr Index kStreamed = 8 << 20;  // bytes of a weight gradient from which it is written past
                                      // the caches

// Every group's rows in blocks of nearly equal size; smaller ones when there are few rows, so that
// there is work for all threads. Results depend on no cut.
std::vector<RowTile> row_blocks(const Args& args) {
  constexpr Index kItems = 16, kLeast = 5 * kTileRows;
  const Index wanted = std::clamp((args.rows + kItems - 1) / kItems, kLeast, kBlockRows);
  std::vector<RowTile> blocks;
  for (Index g = 0; g < args.groups; ++g) {
    const Index begin = args.offset_e1[g], rows = args.offset_e1[g + 1] - begin;
    const Index count = (rows + wanted - 1) / wanted;
    for (Index i = 0; i < count; ++i)
      blocks.push_back({g, begin + rows * i / count, begin + rows * (i + 1) / count});
  }
  return blocks;
}

std::vector<RowTile> weight_blocks(const Args& args, Index total) {
  std::vector<RowTile> blocks;
  for (Index g = 0; g < args.groups; ++g) {
    const Index step = column_block(args.offset_e1[g + 1] - args.offset_e1[g], total);
    for (Index begin = 0; begin < total; begin += step)
      blocks.push_back({g, begin, std::min(total, begin + step)});
  }
  return blocks;
}

void add_to_columns(Index rows, Index width, const float* bias, const float* weight, float* tile) {
  for (Index r = 0; r < rows; ++r, tile += kTileColumns) {
    const float w = weight ? weight[r] : 1.0F;
    for (Index j = 0; j < width; ++j) tile[j] += w * bias[j];
  }
}

class PackedMlp {
  // What a tile of an output [rows, H] will touch.
  auto output_lines(const float* y) const {
    return [this, y](Index panel, Index r, FetchAhead& ahead) {
      touch(y + r * args_.hidden + panel * kTileColumns, 0, args_.hidden, ahead);
    };
  }

 public:
  PackedMlp(const Backend& backend, const Args& args)
      : args_(args), kernels_(*tile_kernels()), gated_(args.up_width != args.width) {
    if (args.permuted) zeros_H_ = backend.zeros(DType::f32, {args.hidden});
  }

  RowsOf<float> source(Index begin) const {
    if (!args_.permuted) return {args_.source_SH + begin * args_.hidden, args_.hidden};
    return {args_.source_SH, args_.hidden, args_.row_R + begin, zeros_H_.data<float>()};
  }

  // h (unless null) and the activation of a block; `a` has rows of width + kPad.
  void up(const RowTile& block, const PackedSpace<float>& space, float* h_RG, float* a) const {
    const Index F = args_.width, G = args_.up_width, H = args_.hidden;
    const Index step = gated_ ? kTileColumns / 2 : kTileColumns, a_row = F + kPad;
    const float* w_GH = args_.up_eGH + block.group * G * H;
    const float* bias_G = args_.up_bias_eG ? args_.up_bias_eG + block.group * G : nullptr;
    float* h = h_RG ? h_RG + block.begin * G : nullptr;
    const auto column = [&](Index panel, Index j) {  // −1: none
      const Index f = panel * step + j % step;
      return f >= F ? -1 : j < step ? f : F + f;
    };
    const auto source_column = [&](Index panel, Index j) {
      const Index g = column(panel, j);
      return g < 0 ? nullptr : w_GH + g * H;
    };
    const auto lines = [&](Index panel, Index r, FetchAhead& ahead) {
      if (h) touch(h + r * G + panel * step, gated_ ? F : kLine, G, ahead);
    };
    const auto finish = [&](Index panel, Index r, Index rows, float* tile) {
      const Index width = std::min(step, F - panel * step);
      for (Index side = 0; side < (gated_ ? 2 : 1); ++side) {
        float* columns = tile + side * step;
        const Index at = side * F + panel * step;
        if (bias_G) add_to_columns(rows, width, bias_G + at, nullptr, columns);
        if (h) copy_columns(rows, width, columns, kTileColumns, h + r * G + at, G);
      }
      ActivationRows<float> act;
      act.rows = rows, act.width = width;
      act.h = tile, act.h_stride = kTileColumns, act.up_offset = step;
      act.a = a + r * a_row + panel * step, act.a_stride = a_row;
      act.weight = weight(block.begin + r);
      args_.activation->forward(act);
    };
    row_product<true>(kernels_, space, source(block.begin), block.rows(), H, G,
                      (F + step - 1) / step, source_column, lines, finish);
  }

  void down(const RowTile& block, const PackedSpace<float>& space, const float* a,
            float* y_RH) const {
    const Index F = args_.width, H = args_.hidden;
    const float* w_HF = args_.down_eHF + block.group * H * F;
    const float* bias_H = args_.down_bias_eH ? args_.down_bias_eH + block.group * H : nullptr;
    float* y = y_RH + block.begin * H;
    const auto column = [&](Index panel, Index j) {
      const Index n = panel * kTileColumns + j;
      return n < H ? w_HF + n * F : nullptr;
    };
    const auto finish = [&](Index panel, Index r, Index rows, float* tile) {
      const Index width = std::min<Index>(kTileColumns, H - panel * kTileColumns);
      if (bias_H)
        add_to_columns(rows, width, bias_H + panel * kTileColumns, weight(block.begin + r), tile);
      copy_columns(rows, width, tile, kTileColumns, y + r * H + panel * kTileColumns, H);
    };
    row_product<true>(kernels_, space, RowsOf<float>{a, F + kPad}, block.rows(), F, H, panels_of(H),
                      column, output_lines(y), finish);
  }

  // dh over h, the activation again into a_RF, and dweight, of a block.
  void activation_gradient(const RowTile& block, const PackedSpace<float>& space,
                           const float* dy_RH, float* h_RG, float* a_RF, float* dweight_R) const {
    const Index F = args_.width, G = args_.up_width, H = args_.hidden;
    const float* w_HF = args_.down_eHF + block.group * H * F;
    const float* dy = dy_RH + block.begin * H;
    float* h = h_RG + block.begin * G;
    float* a = a_RF + block.begin * F;
    float* dweight = dweight_R ? dweight_R + block.begin : nullptr;
    if (dweight)
      for (Index r = 0; r < block.rows(); ++r)
        dweight[r] = args_.down_bias_eH
                         ? simd::dot(H, dy + r * H, args_.down_bias_eH + block.group * H)
                         : 0.0F;
    const auto lines = [&](Index panel, Index r, FetchAhead& ahead) {
      touch(h + r * G + panel * kTileColumns, gated_ ? F : kLine, G, ahead);
    };
    const auto finish = [&](Index panel, Index r, Index rows, float* tile) {
      float part[kTileRows];
      const Index f = panel * kTileColumns;
      ActivationRows<float> act;
      act.rows = rows, act.width = std::min<Index>(kTileColumns, F - f);
      act.dh = h + r * G + f, act.dh_stride = G, act.dup_offset = F;
      act.h = act.dh, act.h_stride = G, act.up_offset = F;
      act.a = a + r * F + f, act.a_stride = F;
      act.da = tile, act.da_stride = kTileColumns;
      act.weight = weight(block.begin + r);
      act.dweight = dweight ? part : nullptr;
      args_.activation->backward(act);
      for (Index i = 0; dweight && i < rows; ++i) dweight[r + i] += part[i];
    };
    row_product<false>(
        kernels_, space, RowsOf<float>{dy, H}, block.rows(), H, F, panels_of(F),
        [&](Index, Index k) { return w_HF + k * F; }, lines, finish);
  }

  // dx_RH = dh · up of a block, or added to it.
  void input_gradient(const RowTile& block, const PackedSpace<float>& space, const float* dh_RG,
                      bool adds, float* dx_RH) const {
    const Index G = args_.up_width, H = args_.hidden;
    const float* w_GH = args_.up_eGH + block.group * G * H;
    float* dx = dx_RH + block.begin * H;
    const auto finish = [&](Index panel, Index r, Index rows, const float* tile) {
      const Index width = std::min<Index>(kTileColumns, H - panel * kTileColumns);
      float* into = dx + r * H + panel * kTileColumns;
      (adds ? add_columns : copy_columns)(rows, width, tile, kTileColumns, into, H);
    };
    row_product<false>(
        kernels_, space, RowsOf<float>{dh_RG + block.begin * G, G}, block.rows(), G, H,
        panels_of(H), [&](Index, Index k) { return w_GH + k * H; }, output_lines(dx), finish);
  }

  // Rows [begin, end) of one group's gradient into_eNM[group] (+)= Σ_r a(r) ⊗ b(r).
  void weight_gradient(const RowTile& block, const PackedSpace<float>& space,
                       const RowsOf<float>& a, const RowsOf<float>& b, Index rows_N,
                       Index columns_M, const GradInto<float>& grad) const {
    const Index size = rows_N * columns_M;
    const Index rows = args_.offset_e1[block.group + 1] - args_.offset_e1[block.group];
    const bool stream = args_.groups * size * static_cast<Index>(sizeof(float)) >= kStreamed;
    column_product(kernels_, space, a, b, {block.begin, block.end, rows, columns_M},
                   grad.beta != 0.0F, stream, grad.into + block.group * size);
  }

 private:
  static constexpr Index kLine = 16;  // floats

  const float* weight(Index row) const { return args_.weight_R ? args_.weight_R + row : nullptr; }

  // Two lines of each row here, and two `apart`; `stride` between rows. In floats.
  static void touch(const float* at, Index apart, Index stride, FetchAhead& ahead) {
    const auto bytes = static_cast<std::ptrdiff_t>(sizeof(float)) * stride;
    const auto* here = reinterpret_cast<const char*>(at);
    const auto* there = reinterpret_cast<const char*>(at + apart);
    ahead.line = {here, here + 64, there, there + 64};
    ahead.line_stride = {bytes, bytes, bytes, bytes};
  }
  const Args& args_;
  const TileKernels<float>& kernels_;
  bool gated_;
  Tensor zeros_H_;
};

void bias_gradients(const Args& args, const float* dh_RG, const float* dy_RH,
                    const GroupedMlpGrads<float>& grads) {
  const Index G = args.up_width, H = args.hidden;
  if (!grads.up_bias_eG.into && !grads.down_bias_eH.into) return;
  parallel_items(args.groups, [&](Index e) {
    const Index begin = args.offset_e1[e], rows = args.offset_e1[e + 1] - begin;
    if (grads.up_bias_eG.into)
      bias_gradient<float>(rows, G, 0, G, dh_RG + begin * G, nullptr,
                           {grads.up_bias_eG.into + e * G, grads.up_bias_eG.beta});
    if (grads.down_bias_eH.into)
      bias_gradient<float>(rows, H, 0, H, dy_RH + begin * H,
                           args.weight_R ? args.weight_R + begin : nullptr,
                           {grads.down_bias_eH.into + e * H, grads.down_bias_eH.beta});
  });
}

}  // namespace

void packed_mlp_forward(const Backend& backend, const Args& args, float* h_RG, float* y_RH) {
  const Index terms = std::max(args.hidden, args.width);
  const PackedMlp mlp(backend, args);
  const std::vector<RowTile> blocks = row_blocks(args);
  const Index space_size = PackedSpace<float>::size(terms);
  const WorkerScratch<float> scratch(backend, space_size + kBlockRows * (args.width + kPad));
  parallel_items(static_cast<Index>(blocks.size()), [&](Index i, int worker) {
    const RowTile& block = blocks[static_cast<std::size_t>(i)];
    const PackedSpace<float> space(scratch.of(worker), terms);
    float* a = scratch.of(worker) + space_size;
    mlp.up(block, space, h_RG, a);
    mlp.down(block, space, a, y_RH);
  });
}

void packed_mlp_backward(const Backend& backend, const Args& args, float* h_RG, const float* dy_RH,
                         const GroupedMlpGrads<float>& grads) {
  const Index R = args.rows, H = args.hidden, F = args.width, G = args.up_width;
  const Index terms = std::max(H, G);
  const bool permuted = args.permuted, wants_source = grads.source_SH.into != nullptr;
  const PackedMlp mlp(backend, args);
  const Tensor a_RF = backend.empty(DType::f32, {R, F});
  Tensor dx_RH, dweight_R;
  if (permuted && wants_source) dx_RH = backend.empty(DType::f32, {R, H});
  if (grads.weight_R.into) dweight_R = backend.empty(DType::f32, {R});
  float* a = a_RF.data<float>();
  float* dx = dx_RH ? dx_RH.data<float>() : grads.source_SH.into;
  float* dweight = dweight_R ? dweight_R.data<float>() : nullptr;

  const WorkerScratch<float> scratch(backend, PackedSpace<float>::size(terms));
  const std::vector<RowTile> blocks = row_blocks(args);
  parallel_items(static_cast<Index>(blocks.size()), [&](Index i, int worker) {
    const RowTile& block = blocks[static_cast<std::size_t>(i)];
    const PackedSpace<float> space(scratch.of(worker), terms);
    mlp.activation_gradient(block, space, dy_RH, h_RG, a, dweight);
    if (wants_source)
      mlp.input_gradient(block, space, h_RG, !permuted && grads.source_SH.beta != 0.0F, dx);
  });
  for (Index r = 0; dweight && r < R; ++r)
    grads.weight_R.into[r] =
        (grads.weight_R.beta == 0.0F ? 0.0F : grads.weight_R.into[r]) + dweight[r];

  // Weight gradients: the rows of an expert are never split, its output is.
  const std::vector<RowTile> ups =
      grads.up_eGH.into ? weight_blocks(args, G) : std::vector<RowTile>{};
  const std::vector<RowTile> downs =
      grads.down_eHF.into ? weight_blocks(args, H) : std::vector<RowTile>{};
  parallel_items(static_cast<Index>(ups.size() + downs.size()), [&](Index i, int worker) {
    const auto at = static_cast<std::size_t>(i);
    const bool up = at < ups.size();
    const RowTile& block = up ? ups[at] : downs[at - ups.size()];
    const PackedSpace<float> space(scratch.of(worker), terms);
    const Index begin = args.offset_e1[block.group];
    if (up)
      mlp.weight_gradient(block, space, RowsOf<float>{h_RG + begin * G, G}, mlp.source(begin), G, H,
                          grads.up_eGH);
    else
      mlp.weight_gradient(block, space, RowsOf<float>{dy_RH + begin * H, H},
                          RowsOf<float>{a + begin * F, F}, H, F, grads.down_eHF);
  });
  bias_gradients(args, h_RG, dy_RH, grads);
  if (permuted && wants_source) sum_source_rows(backend, args, dx, grads.source_SH);
}

}  // namespace moelab
