#include "core/autograd/functions.h"
#include "core/ops/linear.k.h"
#include "core/ops/norm.k.h"

namespace moelab {

Variable layer_norm(Tape& tape, const Variable& x_TD, const Variable& w_D, const Variable* b_D,
                    double eps) {
  const OpTimer timer(tape, "layer_norm");
  const Tensor x = x_TD.value, w = w_D.value, b = b_D ? b_D->value : Tensor{};
  MOELAB_CHECK(x.rank() == 2 && w.shape() == Shape{x.size(1)}, x.shape().text(), " by ",
               w.shape().text());
  MOELAB_CHECK(!b || b.shape() == w.shape(), b.shape().text(), " beside ", w.shape().text());
  const Index rows = x.size(0), width = x.size(1);
  const DType dtype = x.dtype();
  const Tensor y_value = tape.backend().empty_like(x);
  const Tensor mean = tape.backend().empty(dtype, {rows}), r = tape.backend().empty(dtype, {rows});
  dispatch_real(dtype, "layer_norm", [&]<class T>(T) {
    cpu_kernels::layer_norm_forward<T>(rows, width, x.data<T>(), w.data<T>(),
                                       b ? b.data<T>() : nullptr, static_cast<T>(eps),
                                       y_value.data<T>(), mean.data<T>(), r.data<T>());
  });
  Variable y = tape.output(y_value, {&x_TD, &w_D, b_D});
  if (!y.needs_grad()) return y;
  const GradSlot db_slot = b_D ? b_D->slot() : GradSlot{};
  tape.step("layer_norm", {y.slot()},
            [dy_slot = y.slot(), dx_slot = x_TD.slot(), dw_slot = w_D.slot(), db_slot, x, w, mean,
             r, rows, width, dtype](Tape& t) {
              const Tensor dy = t.grad(dy_slot);
              dispatch_real(dtype, "layer_norm", [&]<class T>(T) {
                const T *g = dy.data<T>(), *means = mean.data<T>(), *rs = r.data<T>();
                if (const Grad dw = t.grad_of(dw_slot))
                  cpu_kernels::norm_backward_weight<T>(rows, width, g, x.data<T>(), means, rs,
                                                       dw.accumulate, dw.into.data<T>());
                if (const Grad db = t.grad_of(db_slot))
                  cpu_kernels::column_sums(rows, width, g, db.accumulate, db.into.data<T>());
                if (const Grad dx = t.grad_of(dx_slot))
                  cpu_kernels::layer_norm_backward_input(rows, width, g, x.data<T>(), w.data<T>(),
                                                         means, rs, dx.accumulate,
                                                         dx.into.data<T>());
              });
            });
  return y;
}

}  // namespace moelab
