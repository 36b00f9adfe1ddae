#include <algorithm>

#include "core/autograd/functions.h"
#include "core/ops/mask_rows.k.h"

namespace moelab {
namespace {

void mask(const Tensor& from, const Tensor& valid_T, const Tensor& to) {
  dispatch_real(from.dtype(), "mask_rows", [&]<class T>(T) {
    cpu_kernels::mask_rows(from.size(0), from.size(1), from.data<T>(), valid_T.data<std::uint8_t>(),
                           to.data<T>());
  });
}

}  // namespace

Variable mask_rows(Tape& tape, const Variable& x_TD, const Tensor& valid_T) {
  const Tensor x = x_TD.value;
  MOELAB_CHECK(x.rank() == 2 && valid_T.shape() == Shape{x.size(0)}, x.shape().text(), " by ",
               valid_T.shape().text());
  const auto valid = valid_T.span<std::uint8_t>();
  if (std::find(valid.begin(), valid.end(), 0) == valid.end()) return x_TD;
  const OpTimer timer(tape, "mask_rows");
  const Tensor y_value = tape.backend().empty_like(x);
  mask(x, valid_T, y_value);
  Variable y = tape.output(y_value, {&x_TD});
  if (y.needs_grad())
    tape.step("mask_rows", {y.slot()}, [dy_slot = y.slot(), dx = x_TD.slot(), valid_T](Tape& t) {
      const Tensor dy = t.grad(dy_slot);  // nobody needs it after this step
      mask(dy, valid_T, dy);
      t.give(dx, dy);
    });
  return y;
}

}  // namespace moelab
