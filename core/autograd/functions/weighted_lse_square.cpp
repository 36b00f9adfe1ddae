#include <numeric>

#include "core/autograd/functions.h"
#include "core/ops/router_losses.k.h"

namespace moelab {

Variable weighted_lse_square(Tape& tape, const Variable& logits_TE, const Tensor& weight_T) {
  const OpTimer timer(tape, "weighted_lse_square");
  const Tensor& logits = logits_TE.value;
  const Index tokens = logits.size(0), experts = logits.size(1);
  MOELAB_CHECK(weight_T.numel() == tokens, "weights of ", weight_T.numel(), " tokens, logits of ",
               tokens);
  std::vector<double> row_T(static_cast<std::size_t>(tokens));
  const Tensor lse_T = tape.backend().empty(logits.dtype(), {tokens});
  Variable y = tape.output(tape.backend().empty(logits.dtype(), {1}), {&logits_TE});
  dispatch_real(logits.dtype(), "weighted_lse_square", [&](auto zero) {
    using T = decltype(zero);
    MOELAB_KERNELS::lse_square_rows(tokens, experts, logits.data<T>(), weight_T.data<double>(),
                                    lse_T.data<T>(), row_T.data());
    *y.value.data<T>() = static_cast<T>(std::accumulate(row_T.begin(), row_T.end(), 0.0));
  });
  if (y.needs_grad())
    tape.step("weighted_lse_square", {y.slot()},
              [input = logits_TE.slot(), output = y.slot(), logits, lse_T, weight_T](Tape& t) {
                const Grad dl = t.grad_of(input);
                if (!dl) return;
                dispatch_real(input.dtype, "weighted_lse_square", [&](auto zero) {
                  using T = decltype(zero);
                  MOELAB_KERNELS::lse_square_rows_backward(
                      input.shape[0], input.shape[1], *t.grad(output).data<T>(), logits.data<T>(),
                      lse_T.data<T>(), weight_T.data<double>(), dl.into.data<T>(), dl.accumulate);
                });
              });
  return y;
}

}  // namespace moelab
