// The mask is drawn again in backward: nothing is saved.
#include <cmath>

#include "core/autograd/functions.h"
#include "core/ops/dropout.k.h"

namespace moelab {

Variable dropout(Tape& tape, const Variable& x_TD, double p, const Rng& rng,
                 Index first_global_row) {
  MOELAB_CHECK(p >= 0 && p < 1, "p ", p);
  if (p == 0) return x_TD;
  const OpTimer timer(tape, "dropout");
  const Index n = x_TD.value.numel();
  const DType dtype = x_TD.value.dtype();
  const Tensor y_value = tape.backend().empty_like(x_TD.value);
  const cpu_kernels::DropoutRule rule{
      .key = rng.key(),
      .salt = rng.salt(),
      .first = static_cast<std::uint64_t>(first_global_row * x_TD.value.shape().row().numel()),
      .dropped_below = static_cast<std::uint64_t>(std::ldexp(p, 53))};
  const auto run = [=](const Tensor& from, bool accumulate, const Tensor& to) {
    dispatch_real(dtype, "dropout", [&]<class T>(T) {
      cpu_kernels::dropout(n, from.data<T>(), rule, static_cast<T>(1 / (1 - p)), accumulate,
                           to.data<T>());
    });
  };
  run(x_TD.value, false, y_value);
  Variable y = tape.output(y_value, {&x_TD});
  if (y.needs_grad())
    tape.step("dropout", {y.slot()}, [dy = y.slot(), dx_slot = x_TD.slot(), run](Tape& t) {
      const Grad dx = t.grad_of(dx_slot);
      run(t.grad(dy), dx.accumulate, dx.into);
    });
  return y;
}

}  // namespace moelab
