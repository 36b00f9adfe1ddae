// The same elements under another shape: no copy, forward or backward.
#include "core/autograd/functions.h"

namespace moelab {

Variable reshape(Tape& tape, const Variable& x, Shape shape) {
  const Variable y = tape.output(x.value.view(shape), {&x});
  if (y.needs_grad())
    tape.step("reshape", {y.slot()},
              [dx = x.slot(), dy = y.slot()](Tape& t) { t.give(dx, t.grad(dy).view(dx.shape)); });
  return y;
}

}  // namespace moelab
