#include "core/autograd/functions.h"
#include "core/ops/pair_weights.k.h"

namespace moelab {

Variable gather_weights(Tape& tape, const Variable& w_P,
                        std::shared_ptr<const std::vector<Index>> slot_R) {
  const OpTimer timer(tape, "gather_weights");
  const auto rows = static_cast<Index>(slot_R->size());
  Variable y = tape.output(tape.backend().empty(w_P.value.dtype(), {rows}), {&w_P});
  dispatch_real(y.value.dtype(), "gather_weights", [&](auto zero) {
    using T = decltype(zero);
    MOELAB_KERNELS::gather_slots(rows, slot_R->data(), w_P.value.data<T>(), y.value.data<T>());
  });
  if (y.needs_grad())
    tape.step("gather_weights", {y.slot()},
              [input = w_P.slot(), output = y.slot(), slot_R](Tape& t) {
                const Grad dw = t.grad_of(input);
                if (!dw) return;
                if (!dw.accumulate) fill_zero(dw.into);
                dispatch_real(input.dtype, "gather_weights", [&](auto zero) {
                  using T = decltype(zero);
                  MOELAB_KERNELS::scatter_slots(output.shape[0], slot_R->data(),
                                                t.grad(output).data<T>(), dw.into.data<T>());
                });
              });
  return y;
}

}  // namespace moelab
