#include "core/ops/softplus.k.h"

#include "core/autograd/functions.h"

namespace moelab {

Variable softplus(Tape& tape, const Variable& x, double offset) {
  const OpTimer timer(tape, "softplus");
  Variable y = tape.output(tape.backend().empty_like(x.value), {&x});
  dispatch_real(x.value.dtype(), "softplus", [&](auto zero) {
    using T = decltype(zero);
    MOELAB_KERNELS::softplus(x.value.numel(), x.value.data<T>(), static_cast<T>(offset),
                             y.value.data<T>());
  });
  if (y.needs_grad())
    tape.step("softplus", {y.slot()},
              [input = x.slot(), output = y.slot(), saved = x.value](Tape& t) {
                const Grad dx = t.grad_of(input);
                if (!dx) return;
                dispatch_real(saved.dtype(), "softplus", [&](auto zero) {
                  using T = decltype(zero);
                  MOELAB_KERNELS::softplus_backward(saved.numel(), saved.data<T>(),
                                                    t.grad(output).data<T>(), dx.accumulate,
                                                    dx.into.data<T>());
                });
              });
  return y;
}

}  // namespace moelab
