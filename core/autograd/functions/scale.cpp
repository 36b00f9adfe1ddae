#include "core/autograd/functions.h"
#include "core/ops/elementwise.k.h"

namespace moelab {

Variable scale(Tape& tape, const Variable& a, double factor) {
  const OpTimer timer(tape, "scale");
  const Index n = a.value.numel();
  const DType dtype = a.value.dtype();
  const Tensor y_value = tape.backend().empty_like(a.value);
  const auto run = [=](const Tensor& from, bool accumulate, const Tensor& to) {
    dispatch_real(dtype, "scale", [&]<class T>(T) {
      cpu_kernels::add_scaled(n, static_cast<T>(factor), from.data<T>(), accumulate, to.data<T>());
    });
  };
  run(a.value, false, y_value);
  Variable y = tape.output(y_value, {&a});
  if (y.needs_grad())
    tape.step("scale", {y.slot()}, [dy = y.slot(), da_slot = a.slot(), run](Tape& t) {
      const Grad da = t.grad_of(da_slot);
      run(t.grad(dy), da.accumulate, da.into);
    });
  return y;
}

}  // namespace moelab
