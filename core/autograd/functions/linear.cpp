// y_TF = x_TH · w_FHᵀ + b_F. dx = dy · w, dw = dyᵀ · x, db = column sums of dy.
#include "core/autograd/functions.h"
#include "core/backend/gemm.h"
#include "core/ops/linear.k.h"

namespace moelab {
namespace {

template <class T>
void forward(const Tensor& x, const Tensor& w, const Tensor& b, const Tensor& y) {
  const Index rows = x.size(0), in = x.size(1), out = w.size(0);
  if (b) cpu_kernels::broadcast_row(rows, out, b.data<T>(), y.data<T>());
  gemm<T>({.transpose_b = true,
           .m = rows,
           .n = out,
           .k = in,
           .a = x.data<T>(),
           .lda = in,
           .b = w.data<T>(),
           .ldb = in,
           .beta = b ? T(1) : T(0),
           .c = y.data<T>(),
           .ldc = out});
}

template <class T>
void backward_input(const Tensor& dy, const Tensor& w, const Grad& dx) {
  const Index rows = dy.size(0), out = dy.size(1), in = w.size(1);
  gemm<T>({.m = rows,
           .n = in,
           .k = out,
           .a = dy.data<T>(),
           .lda = out,
           .b = w.data<T>(),
           .ldb = in,
           .beta = static_cast<T>(dx.beta()),
           .c = dx.into.data<T>(),
           .ldc = in});
}

template <class T>
void backward_weight(const Backend& backend, const Tensor& dy, const Tensor& x, const Grad& dw) {
  const Index rows = dy.size(0), out = dy.size(1), in = x.size(1);
  gemm_long_sum<T>(backend, {.transpose_a = true,
                             .m = out,
                             .n = in,
                             .k = rows,
                             .a = dy.data<T>(),
                             .lda = out,
                             .b = x.data<T>(),
                             .ldb = in,
                             .beta = static_cast<T>(dw.beta()),
                             .c = dw.into.data<T>(),
                             .ldc = in});
}

}  // namespace

Variable linear(Tape& tape, const Variable& x_TH, const Variable& w_FH, const Variable* b_F) {
  const OpTimer timer(tape, "linear");
  const Tensor x = x_TH.value, w = w_FH.value, b = b_F ? b_F->value : Tensor{};
  MOELAB_CHECK(x.rank() == 2 && w.rank() == 2 && x.size(1) == w.size(1), x.shape().text(), " by ",
               w.shape().text());
  MOELAB_CHECK(!b || b.shape() == Shape{w.size(0)}, b.shape().text(), " for ", w.shape().text());
  const DType dtype = x.dtype();
  const Tensor y_value = tape.backend().empty(dtype, {x.size(0), w.size(0)});
  dispatch_real(dtype, "linear", [&]<class T>(T) { forward<T>(x, w, b, y_value); });

  Variable y = tape.output(y_value, {&x_TH, &w_FH, b_F});
  if (!y.needs_grad()) return y;
  const GradSlot db_slot = b_F ? b_F->slot() : GradSlot{};
  tape.step("linear", {y.slot()},
            [dy_slot = y.slot(), dx_slot = x_TH.slot(), dw_slot = w_FH.slot(), db_slot, dtype,
             x_saved = w_FH.needs_grad() ? x : Tensor{},
             w_saved = x_TH.needs_grad() ? w : Tensor{}](Tape& t) {
              const Tensor dy = t.grad(dy_slot);
              dispatch_real(dtype, "linear", [&]<class T>(T) {
                if (const Grad dx = t.grad_of(dx_slot)) backward_input<T>(dy, w_saved, dx);
                if (const Grad dw = t.grad_of(dw_slot))
                  backward_weight<T>(t.backend(), dy, x_saved, dw);
                if (const Grad db = t.grad_of(db_slot))
                  cpu_kernels::column_sums(dy.size(0), dy.size(1), dy.data<T>(), db.accumulate,
                                           db.into.data<T>());
              });
            });
  return y;
}

}  // namespace moelab
