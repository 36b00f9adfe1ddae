#include "core/autograd/functions.h"
#include "core/ops/inverse_index.h"
#include "core/ops/permute.k.h"

namespace moelab {

Variable gather_rows(Tape& tape, const Variable& x_SH,
                     std::shared_ptr<const std::vector<std::int32_t>> row_R) {
  const OpTimer timer(tape, "gather_rows");
  const Index rows = static_cast<Index>(row_R->size()), width = x_SH.value.size(1);
  const Variable y_RH =
      tape.output(tape.backend().empty(x_SH.value.dtype(), {rows, width}), {&x_SH});
  dispatch_real(x_SH.value.dtype(), "gather_rows", [&]<class T>(T) {
    cpu_kernels::gather_rows<T>(rows, width, x_SH.value.data<T>(), row_R->data(),
                                y_RH.value.data<T>());
  });
  if (!y_RH.needs_grad()) return y_RH;
  tape.step("gather_rows", {y_RH.slot()}, [row_R, x = x_SH.slot(), y = y_RH.slot()](Tape& t) {
    const Tensor dy = t.grad(y);
    const Grad g = t.grad_of(x);
    if (!g) return;
    const InverseIndex inverse =
        invert(t.backend(), x.shape[0], row_R->data(), static_cast<Index>(row_R->size()));
    dispatch_real(x.dtype, "gather_rows", [&]<class T>(T) {
      cpu_kernels::sum_rows<T>(x.shape[0], x.shape[1], dy.data<T>(),
                               inverse.offset_S1.data<Index>(), inverse.row_R.data<std::int32_t>(),
                               g.accumulate, g.into.data<T>());
    });
  });
  return y_RH;
}

}  // namespace moelab
