#include "core/autograd/functions.h"
#include "core/ops/embedding.k.h"

namespace moelab {

Variable embedding(Tape& tape, const Variable& w_VD, const Tensor& id_T) {
  const OpTimer timer(tape, "embedding");
  const Tensor w = w_VD.value;
  MOELAB_CHECK(w.rank() == 2 && id_T.rank() == 1, w.shape().text(), " by ", id_T.shape().text());
  const Index rows = id_T.size(0), vocabulary = w.size(0), width = w.size(1);
  for (const std::int32_t id : id_T.span<std::int32_t>())
    MOELAB_CHECK(id < vocabulary, "id ", id, " vocabulary ", vocabulary);
  const DType dtype = w.dtype();
  const Tensor y_value = tape.backend().empty(dtype, {rows, width});
  dispatch_real(dtype, "embedding", [&]<class T>(T) {
    cpu_kernels::embedding_forward(rows, width, w.data<T>(), id_T.data<std::int32_t>(),
                                   y_value.data<T>());
  });
  Variable y = tape.output(y_value, {&w_VD});
  if (y.needs_grad())
    tape.step(
        "embedding", {y.slot()},
        [dy = y.slot(), dw_slot = w_VD.slot(), id_T, rows, vocabulary, width, dtype](Tape& t) {
          const Grad dw = t.grad_of(dw_slot);
          dispatch_real(dtype, "embedding", [&]<class T>(T) {
            cpu_kernels::embedding_backward(rows, vocabulary, width, t.grad(dy).data<T>(),
                                            id_T.data<std::int32_t>(), dw.accumulate,
                                            dw.into.data<T>());
          });
        });
  return y;
}

}  // namespace moelab
