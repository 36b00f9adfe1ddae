#include "core/autograd/functions.h"
#include "core/ops/pair_weights.k.h"

namespace moelab {

Variable renormalize_weights(Tape& tape, const Variable& w_P, const std::vector<Index>& offset_T1,
                             const std::vector<std::uint8_t>& kept_P, double floor) {
  const OpTimer timer(tape, "renormalize_weights");
  const Tensor w = w_P.value;
  const auto tokens = static_cast<Index>(offset_T1.size()) - 1;
  MOELAB_CHECK(w.numel() == static_cast<Index>(kept_P.size()) && offset_T1.back() == w.numel(),
               "weights ", w.numel(), ", kept marks ", kept_P.size());
  Variable y = tape.output(tape.backend().empty_like(w), {&w_P});
  dispatch_real(w.dtype(), "renormalize_weights", [&](auto zero) {
    using T = decltype(zero);
    MOELAB_KERNELS::renormalize_rows(tokens, offset_T1.data(), kept_P.data(), static_cast<T>(floor),
                                     w.data<T>(), y.value.data<T>());
  });
  if (y.needs_grad())
    tape.step(
        "renormalize_weights", {y.slot()},
        [input = w_P.slot(), output = y.slot(), w, tokens, offset_T1, kept_P, floor](Tape& t) {
          const Grad dw = t.grad_of(input);
          if (!dw) return;
          dispatch_real(input.dtype, "renormalize_weights", [&](auto zero) {
            using T = decltype(zero);
            MOELAB_KERNELS::renormalize_rows_backward(
                tokens, offset_T1.data(), kept_P.data(), static_cast<T>(floor), w.data<T>(),
                t.grad(output).data<T>(), dw.into.data<T>(), dw.accumulate);
          });
        });
  return y;
}

}  // namespace moelab
