#include "core/ops/multiply.k.h"

#include "core/autograd/functions.h"

namespace moelab {
namespace {

void product(const Tensor& x, const Tensor& factor, bool accumulate, const Tensor& y) {
  dispatch_real(x.dtype(), "multiply", [&](auto zero) {
    using T = decltype(zero);
    MOELAB_KERNELS::multiply(x.numel(), x.data<T>(), factor.data<T>(), accumulate, y.data<T>());
  });
}

}  // namespace

Variable multiply(Tape& tape, const Variable& x, const Tensor& factor) {
  const OpTimer timer(tape, "multiply");
  MOELAB_CHECK(x.value.shape() == factor.shape(), x.value.shape().text(), " times ",
               factor.shape().text());
  Variable y = tape.output(tape.backend().empty_like(x.value), {&x});
  product(x.value, factor, false, y.value);
  if (y.needs_grad())
    tape.step("multiply", {y.slot()}, [input = x.slot(), output = y.slot(), factor](Tape& t) {
      if (const Grad dx = t.grad_of(input)) product(t.grad(output), factor, dx.accumulate, dx.into);
    });
  return y;
}

}  // namespace moelab
