// Parts [R_i, H] → one [Σ R_i, H], in order; backward hands each part its rows of the gradient.
#include "core/autograd/functions.h"

namespace moelab {

Variable concat_rows(Tape& tape, const std::vector<Variable>& parts) {
  const OpTimer timer(tape, "concat_rows");
  MOELAB_CHECK(!parts.empty(), "no parts");
  Index rows = 0;
  bool needs_grad = false;
  for (const Variable& part : parts) {
    rows += part.value.size(0);
    needs_grad = needs_grad || part.needs_grad();
  }
  const Tensor& first = parts.front().value;
  const Tensor out = tape.backend().empty(first.dtype(), {rows, first.size(1)});
  std::vector<GradSlot> slots;
  for (Index at = 0; const Variable& part : parts) {
    copy(part.value, out.rows(at, part.value.size(0)));
    at += part.value.size(0);
    slots.push_back(part.slot());
  }
  const Variable y = tape.output(out, needs_grad);
  if (y.needs_grad())
    tape.step("concat_rows", {y.slot()}, [slots, dy = y.slot()](Tape& t) {
      const Tensor gradient = t.grad(dy);
      for (Index at = 0; const GradSlot& slot : slots) {
        t.give(slot, gradient.rows(at, slot.shape[0]));
        at += slot.shape[0];
      }
    });
  return y;
}

}  // namespace moelab
