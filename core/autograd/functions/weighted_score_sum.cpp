#include <numeric>

#include "core/autograd/functions.h"
#include "core/ops/router_losses.k.h"

namespace moelab {

Variable weighted_score_sum(Tape& tape, const Variable& scores_TE, const Tensor& coefficient_GE,
                            const std::vector<std::int32_t>& instance_T) {
  const OpTimer timer(tape, "weighted_score_sum");
  const Index tokens = scores_TE.value.size(0), experts = scores_TE.value.size(1);
  MOELAB_CHECK(static_cast<Index>(instance_T.size()) == tokens, "instances of ", instance_T.size(),
               " tokens, scores of ", tokens);
  std::vector<double> row_T(instance_T.size());
  Variable y = tape.output(tape.backend().empty(scores_TE.value.dtype(), {1}), {&scores_TE});
  dispatch_real(scores_TE.value.dtype(), "weighted_score_sum", [&](auto zero) {
    using T = decltype(zero);
    MOELAB_KERNELS::weighted_score_rows(tokens, experts, scores_TE.value.data<T>(),
                                        coefficient_GE.data<double>(), instance_T.data(),
                                        row_T.data());
    *y.value.data<T>() = static_cast<T>(std::accumulate(row_T.begin(), row_T.end(), 0.0));
  });
  if (y.needs_grad())
    tape.step("weighted_score_sum", {y.slot()},
              [input = scores_TE.slot(), output = y.slot(), coefficient_GE, instance_T](Tape& t) {
                const Grad ds = t.grad_of(input);
                if (!ds) return;
                dispatch_real(input.dtype, "weighted_score_sum", [&](auto zero) {
                  using T = decltype(zero);
                  MOELAB_KERNELS::weighted_score_rows_backward(
                      input.shape[0], input.shape[1], *t.grad(output).data<T>(),
                      coefficient_GE.data<double>(), instance_T.data(), ds.into.data<T>(),
                      ds.accumulate);
                });
              });
  return y;
}

}  // namespace moelab
