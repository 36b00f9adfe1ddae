#include "core/autograd/functions.h"
#include "core/base/threads.h"
#include "core/ops/grouped.h"

namespace moelab {
namespace {

template <class T>
void backward(const std::vector<Index>& offset_e1, const Tensor& x, const Tensor& w,
              const Tensor& dy, const Grad& gx, const Grad& gw) {
  const Index groups = w.size(0), out = w.size(1), in = w.size(2);
  const auto row_tiles = group_row_tiles(gx ? groups : 0, offset_e1.data());
  const auto weight_tiles = group_weight_tiles(gw ? groups : 0, out);
  const Index weights = static_cast<Index>(weight_tiles.size());
  parallel_items(weights + static_cast<Index>(row_tiles.size()), [&](Index i) {
    if (i < weights) {
      const RowTile& tile = weight_tiles[static_cast<std::size_t>(i)];
      const std::size_t e = static_cast<std::size_t>(tile.group);
      weight_gradient<T>(tile, offset_e1[e], offset_e1[e + 1], in, out, dy.data<T>(), x.data<T>(),
                         static_cast<T>(gw.beta()), gw.into[tile.group].data<T>());
    } else {
      const RowTile& tile = row_tiles[static_cast<std::size_t>(i - weights)];
      rows_times<T>(tile.rows(), in, out, dy.data<T>() + tile.begin * out, w[tile.group].data<T>(),
                    static_cast<T>(gx.beta()), gx.into.data<T>() + tile.begin * in);
    }
  });
}

}  // namespace

Variable grouped_linear(Tape& tape, const Variable& x_RH,
                        std::shared_ptr<const std::vector<Index>> offset_e1,
                        const Variable& w_eFH) {
  const OpTimer timer(tape, "grouped_linear");
  const Index groups = w_eFH.value.size(0), out = w_eFH.value.size(1), in = w_eFH.value.size(2);
  const Index rows = x_RH.value.size(0);
  MOELAB_CHECK(static_cast<Index>(offset_e1->size()) == groups + 1 && offset_e1->back() == rows &&
                   x_RH.value.size(1) == in,
               "rows ", x_RH.value.shape().text(), " for weights ", w_eFH.value.shape().text());
  const Variable y =
      tape.output(tape.backend().empty(x_RH.value.dtype(), {rows, out}), {&x_RH, &w_eFH});
  const auto tiles = group_row_tiles(groups, offset_e1->data());
  dispatch_real(x_RH.value.dtype(), "grouped_linear", [&]<class T>(T) {
    parallel_items(static_cast<Index>(tiles.size()), [&](Index i) {
      const RowTile& tile = tiles[static_cast<std::size_t>(i)];
      rows_times_transposed<T>(tile.rows(), in, out, x_RH.value.data<T>() + tile.begin * in,
                               w_eFH.value[tile.group].data<T>(), nullptr, nullptr,
                               y.value.data<T>() + tile.begin * out);
    });
  });
  if (!y.needs_grad()) return y;
  tape.step("grouped_linear", {y.slot()},
            [offset_e1, x = x_RH.value, w = w_eFH.value, x_slot = x_RH.slot(),
             w_slot = w_eFH.slot(), y_slot = y.slot()](Tape& t) {
              const Tensor dy = t.grad(y_slot);
              const Grad gx = t.grad_of(x_slot), gw = t.grad_of(w_slot);
              dispatch_real(x.dtype(), "grouped_linear",
                            [&]<class T>(T) { backward<T>(*offset_e1, x, w, dy, gx, gw); });
            });
  return y;
}

}  // namespace moelab
