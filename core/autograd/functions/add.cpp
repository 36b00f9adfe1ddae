#include "core/autograd/functions.h"
#include "core/ops/elementwise.k.h"

namespace moelab {

Variable add(Tape& tape, const Variable& a, const Variable& b) {
  const OpTimer timer(tape, "add");
  MOELAB_CHECK(a.value.shape() == b.value.shape(), a.value.shape().text(), " and ",
               b.value.shape().text());
  const Index n = a.value.numel();
  const DType dtype = a.value.dtype();
  const Tensor y_value = tape.backend().empty_like(a.value);
  dispatch_real(dtype, "add", [&]<class T>(T) {
    cpu_kernels::sum_of(n, a.value.data<T>(), b.value.data<T>(), y_value.data<T>());
  });
  Variable y = tape.output(y_value, {&a, &b});
  if (y.needs_grad())
    tape.step("add", {y.slot()},
              [dy_slot = y.slot(), da = a.slot(), db_slot = b.slot(), n, dtype](Tape& t) {
                const Tensor dy = t.grad(dy_slot);
                t.give(da, dy);
                if (t.grad(da).raw() != dy.raw()) return t.give(db_slot, dy);
                if (const Grad db = t.grad_of(db_slot))  // dy is a's now: b gets a copy
                  dispatch_real(dtype, "add", [&]<class T>(T) {
                    cpu_kernels::add_scaled(n, T(1), dy.data<T>(), db.accumulate,
                                            db.into.data<T>());
                  });
              });
  return y;
}

}  // namespace moelab
