#include "core/autograd/functions.h"
#include "core/ops/linear.k.h"
#include "core/ops/norm.k.h"

namespace moelab {

Variable rms_norm(Tape& tape, const Variable& x_TD, const Variable& w_D, double eps) {
  const OpTimer timer(tape, "rms_norm");
  const Tensor x = x_TD.value, w = w_D.value;
  MOELAB_CHECK(x.rank() == 2 && w.shape() == Shape{x.size(1)}, x.shape().text(), " by ",
               w.shape().text());
  const Index rows = x.size(0), width = x.size(1);
  const DType dtype = x.dtype();
  const Tensor y_value = tape.backend().empty_like(x);
  const Tensor r = tape.backend().empty(dtype, {rows});
  dispatch_real(dtype, "rms_norm", [&]<class T>(T) {
    cpu_kernels::rms_norm_forward(rows, width, x.data<T>(), w.data<T>(), static_cast<T>(eps),
                                  y_value.data<T>(), r.data<T>());
  });
  Variable y = tape.output(y_value, {&x_TD, &w_D});
  if (!y.needs_grad()) return y;
  tape.step("rms_norm", {y.slot()},
            [dy_slot = y.slot(), dx_slot = x_TD.slot(), dw_slot = w_D.slot(), x, w, r, rows, width,
             dtype](Tape& t) {
              const Tensor dy = t.grad(dy_slot);
              dispatch_real(dtype, "rms_norm", [&]<class T>(T) {
                const Index chunks = cpu_kernels::rms_norm_chunks(rows);
                Tensor partial;
                if (dw_slot.needs_grad()) partial = t.backend().empty(dtype, {chunks, width});
                {
                  const Grad dx = t.grad_of(dx_slot);
                  cpu_kernels::rms_norm_backward<T>(rows, width, dy.data<T>(), x.data<T>(),
                                                    w.data<T>(), r.data<T>(), dx.accumulate,
                                                    dx ? dx.into.data<T>() : nullptr,
                                                    partial ? partial.data<T>() : nullptr);
                }
                if (const Grad dw = t.grad_of(dw_slot))
                  cpu_kernels::column_sums(chunks, width, partial.data<T>(), dw.accumulate,
                                           dw.into.data<T>());
              });
            });
  return y;
}

}  // namespace moelab
