#include "core/ops/row_weights.k.h"

#include "core/autograd/functions.h"

namespace moelab {

std::vector<Variable> token_weights(Tape& tape, const Variable& l_TN, const Tensor& valid_T) {
  const OpTimer timer(tape, "token_weights");
  const Index tokens = l_TN.value.size(0), count = l_TN.value.size(1);
  const DType dtype = l_TN.value.dtype();
  MOELAB_CHECK(valid_T.numel() == tokens, valid_T.numel(), " flags for ", tokens, " tokens");
  const Tensor w_NT = tape.backend().empty(dtype, {count, tokens});
  dispatch_real(dtype, "token_weights", [&]<class T>(T) {
    MOELAB_KERNELS::token_weights(tokens, count, l_TN.value.data<T>(), valid_T.data<std::uint8_t>(),
                                  w_NT.data<T>());
  });
  std::vector<Variable> out;
  std::vector<GradSlot> slots;
  for (Index n = 0; n < count; ++n) {
    out.push_back(tape.output(w_NT[n], {&l_TN}));
    slots.push_back(out.back().slot());
  }
  if (!l_TN.needs_grad() || !out.front().needs_grad()) return out;
  tape.step("token_weights", slots, [w_NT, slots, input = l_TN.slot()](Tape& t) {
    const Grad dl = t.grad_of(input);
    if (!dl) return;
    const Tensor dw_NT = t.backend().zeros(w_NT.dtype(), w_NT.shape());
    for (std::size_t n = 0; n < slots.size(); ++n)
      if (const Tensor dw_T = t.grad(slots[n])) copy(dw_T, dw_NT[static_cast<Index>(n)]);
    dispatch_real(w_NT.dtype(), "token_weights", [&]<class T>(T) {
      MOELAB_KERNELS::token_weights_backward(w_NT.size(1), w_NT.size(0), w_NT.data<T>(),
                                             dw_NT.data<T>(), dl.accumulate, dl.into.data<T>());
    });
  });
  return out;
}

Variable scale_rows(Tape& tape, const Variable& x_TD, const Variable& w_T) {
  const OpTimer timer(tape, "scale_rows");
  const Index rows = x_TD.value.size(0), width = x_TD.value.size(1);
  MOELAB_CHECK(w_T.value.numel() == rows, w_T.value.numel(), " factors for ", rows, " rows");
  const Variable y = tape.output(tape.backend().empty_like(x_TD.value), {&x_TD, &w_T});
  dispatch_real(y.value.dtype(), "scale_rows", [&]<class T>(T) {
    MOELAB_KERNELS::scale_rows(rows, width, x_TD.value.data<T>(), w_T.value.data<T>(), false,
                               y.value.data<T>());
  });
  if (!y.needs_grad()) return y;
  tape.step("scale_rows", {y.slot()},
            [output = y.slot(), dx_slot = x_TD.slot(), dw_slot = w_T.slot(),
             x = w_T.needs_grad() ? x_TD.value : Tensor{},
             w = x_TD.needs_grad() ? w_T.value : Tensor{}](Tape& t) {
              const Tensor dy = t.grad(output);
              const Index height = dy.size(0), columns = dy.size(1);
              dispatch_real(dy.dtype(), "scale_rows", [&]<class T>(T) {
                if (const Grad dw = t.grad_of(dw_slot))
                  MOELAB_KERNELS::row_products(height, columns, dy.data<T>(), x.data<T>(),
                                               dw.accumulate, dw.into.data<T>());
                if (const Grad dx = t.grad_of(dx_slot))
                  MOELAB_KERNELS::scale_rows(height, columns, dy.data<T>(), w.data<T>(),
                                             dx.accumulate, dx.into.data<T>());
              });
            });
  return y;
}

Variable sum_weights(Tape& tape, const Variable& w_P,
                     std::shared_ptr<const std::vector<Index>> offset_T1,
                     std::shared_ptr<const std::vector<std::uint8_t>> chosen_P) {
  const OpTimer timer(tape, "sum_weights");
  const Index tokens = static_cast<Index>(offset_T1->size()) - 1;
  MOELAB_CHECK(static_cast<Index>(chosen_P->size()) == w_P.value.numel() &&
                   offset_T1->back() == w_P.value.numel(),
               chosen_P->size(), " flags and ", offset_T1->back(), " slots for ", w_P.value.numel(),
               " weights");
  const Variable y = tape.output(tape.backend().empty(w_P.value.dtype(), {tokens}), {&w_P});
  dispatch_real(y.value.dtype(), "sum_weights", [&]<class T>(T) {
    MOELAB_KERNELS::sum_slots(tokens, offset_T1->data(), chosen_P->data(), w_P.value.data<T>(),
                              y.value.data<T>());
  });
  if (!y.needs_grad()) return y;
  tape.step("sum_weights", {y.slot()},
            [offset_T1, chosen_P, tokens, output = y.slot(), input = w_P.slot()](Tape& t) {
              const Grad dw = t.grad_of(input);
              if (!dw) return;
              dispatch_real(input.dtype, "sum_weights", [&]<class T>(T) {
                MOELAB_KERNELS::spread_slots(tokens, offset_T1->data(), chosen_P->data(),
                                             t.grad(output).data<T>(), dw.accumulate,
                                             dw.into.data<T>());
              });
            });
  return y;
}

}  // namespace moelab
