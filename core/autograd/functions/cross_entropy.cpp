#include "core/autograd/functions.h"
#include "core/ops/cross_entropy.k.h"

namespace moelab {
namespace {

void check_arguments(const Tensor& logits, const Tensor& target) {
  MOELAB_CHECK(logits.rank() == 2 && target.shape() == Shape{logits.size(0)}, logits.shape().text(),
               " by ", target.shape().text());
  for (const std::int32_t id : target.span<std::int32_t>())
    MOELAB_CHECK(id < logits.size(1), "target ", id, " vocabulary ", logits.size(1));
}

// Row losses; lse_T may be undefined.
Tensor row_losses(Backend& backend, const Tensor& logits, const Tensor& target, const Tensor& lse) {
  check_arguments(logits, target);
  const Tensor loss = backend.empty(DType::f64, {logits.size(0)});
  dispatch_real(logits.dtype(), "cross_entropy", [&]<class T>(T) {
    cpu_kernels::cross_entropy_forward<T>(logits.size(0), logits.size(1), logits.data<T>(),
                                          target.data<std::int32_t>(), loss.data<double>(),
                                          lse ? lse.data<T>() : nullptr);
  });
  return loss;
}

}  // namespace

Tensor cross_entropy_rows(Backend& backend, const Tensor& logits_TV, const Tensor& target_T) {
  return row_losses(backend, logits_TV, target_T, {});
}

Variable cross_entropy_sum(Tape& tape, const Variable& logits_TV, const Tensor& target_T) {
  const OpTimer timer(tape, "cross_entropy");
  const Tensor logits = logits_TV.value;
  const Index rows = logits.size(0), vocabulary = logits.size(1);
  const DType dtype = logits.dtype();
  const Tensor lse = tape.backend().empty(dtype, {rows});
  double total = 0;
  {
    const Tensor loss = row_losses(tape.backend(), logits, target_T, lse);
    for (const double row : loss.span<double>()) total += row;
  }
  const Tensor y_value = tape.backend().empty(dtype, {1});
  dispatch_real(dtype, "cross_entropy",
                [&]<class T>(T) { *y_value.data<T>() = static_cast<T>(total); });
  Variable y = tape.output(y_value, {&logits_TV});
  if (y.needs_grad())
    tape.step("cross_entropy", {y.slot()},
              [dy = y.slot(), d_slot = logits_TV.slot(), logits, lse, target_T, rows, vocabulary,
               dtype](Tape& t) {
                // The first gradient of the logits takes their own storage.
                const bool accumulate = t.grad(d_slot).defined();
                const Tensor into = accumulate ? t.grad_of(d_slot).into : logits;
                dispatch_real(dtype, "cross_entropy", [&]<class T>(T) {
                  cpu_kernels::cross_entropy_backward(
                      rows, vocabulary, logits.data<T>(), target_T.data<std::int32_t>(),
                      lse.data<T>(), *t.grad(dy).data<T>(), accumulate, into.data<T>());
                });
                if (!accumulate) t.give(d_slot, logits);
              });
  return y;
}

}  // namespace moelab
