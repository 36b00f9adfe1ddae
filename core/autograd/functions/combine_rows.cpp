#include "core/autograd/functions.h"
#include "core/ops/inverse_index.h"
#include "core/ops/permute.k.h"

namespace moelab {
namespace {

// dx_RH[r] (+)= Σ dy_TH[token of p] over the slots p that refer to row r, in slot order.
void combine_backward(const Backend& backend, const Tensor& dy,
                      const std::vector<std::int32_t>& row_of_P,
                      const std::vector<Index>& offset_T1, const Grad& g) {
  const Index pairs = static_cast<Index>(row_of_P.size()), rows = g.into.size(0);
  const InverseIndex inverse = invert(backend, rows, row_of_P.data(), pairs);
  const Tensor token_P = backend.empty(DType::i32, {pairs});
  std::int32_t* token = token_P.data<std::int32_t>();
  for (std::size_t t = 0; t + 1 < offset_T1.size(); ++t)
    std::fill(token + offset_T1[t], token + offset_T1[t + 1], static_cast<std::int32_t>(t));
  const Index* offset = inverse.offset_S1.data<Index>();
  std::int32_t* slot = inverse.row_R.data<std::int32_t>();
  for (Index i = 0; i < offset[rows]; ++i) slot[i] = token[slot[i]];
  dispatch_real(dy.dtype(), "combine_rows", [&]<class T>(T) {
    cpu_kernels::sum_rows<T>(rows, dy.size(1), dy.data<T>(), offset, slot, g.accumulate,
                             g.into.data<T>());
  });
}

}  // namespace

Variable combine_rows(Tape& tape, const Variable& x_RH,
                      std::shared_ptr<const std::vector<std::int32_t>> row_of_P,
                      std::shared_ptr<const std::vector<Index>> offset_T1) {
  const OpTimer timer(tape, "combine_rows");
  const Index tokens = static_cast<Index>(offset_T1->size()) - 1, width = x_RH.value.size(1);
  const Variable y_TH =
      tape.output(tape.backend().empty(x_RH.value.dtype(), {tokens, width}), {&x_RH});
  dispatch_real(x_RH.value.dtype(), "combine_rows", [&]<class T>(T) {
    cpu_kernels::sum_rows<T>(tokens, width, x_RH.value.data<T>(), offset_T1->data(),
                             row_of_P->data(), false, y_TH.value.data<T>());
  });
  if (!y_TH.needs_grad()) return y_TH;
  tape.step("combine_rows", {y_TH.slot()},
            [row_of_P, offset_T1, x = x_RH.slot(), y = y_TH.slot()](Tape& t) {
              const Tensor dy = t.grad(y);
              if (const Grad g = t.grad_of(x))
                combine_backward(t.backend(), dy, *row_of_P, *offset_T1, g);
            });
  return y_TH;
}

}  // namespace moelab
