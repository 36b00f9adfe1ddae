#include "core/autograd/functions.h"
#include "core/base/threads.h"

namespace moelab {
namespace {

// Fills the row block [begin, end) of an ActivationRows.
template <class T>
ActivationRows<T> block(const Tensor& h, Index width, Index begin, Index end) {
  ActivationRows<T> rows;
  rows.rows = end - begin, rows.width = width;
  rows.h = h.data<T>() + begin * h.size(1);
  return rows;
}

constexpr Index kGrain = 4096;  // elements of h that are worth a thread

}  // namespace

Variable activate(Tape& tape, const Activation& activation, const Variable& h) {
  const OpTimer timer(tape, "activate");
  const Index rows = h.value.size(0), columns = h.value.size(1);
  const Index width = activation.gated() ? columns / 2 : columns;
  MOELAB_CHECK(!activation.gated() || columns % 2 == 0, "a gated activation of width ", columns);
  const Index grain = std::max<Index>(1, kGrain / columns);
  const Variable y = tape.output(tape.backend().empty(h.value.dtype(), {rows, width}), {&h});
  dispatch_real(h.value.dtype(), "activate", [&]<class T>(T) {
    parallel_ranges(rows, grain, [&](Index begin, Index end) {
      auto part = block<T>(h.value, width, begin, end);
      part.a = y.value.data<T>() + begin * width;
      activation.forward(part);
    });
  });
  if (!y.needs_grad()) return y;
  tape.step("activate", {y.slot()},
            [&activation, h = h.value, width, grain, x = h.slot(), y = y.slot()](Tape& t) {
              const Tensor dy = t.grad(y);
              const Grad g = t.grad_of(x);
              if (!g) return;
              const Tensor dh = g.accumulate ? t.backend().empty_like(h) : g.into;
              dispatch_real(h.dtype(), "activate", [&]<class T>(T) {
                parallel_ranges(h.size(0), grain, [&](Index begin, Index end) {
                  auto part = block<T>(h, width, begin, end);
                  part.da = dy.data<T>() + begin * width;
                  part.dh = dh.data<T>() + begin * h.size(1);
                  activation.backward(part);
                  if (!g.accumulate) return;
                  T* into = g.into.data<T>() + begin * h.size(1);
                  const Index n = (end - begin) * h.size(1);
                  for (Index i = 0; i < n; ++i) into[i] += part.dh[i];
                });
              });
            });
  return y;
}

}  // namespace moelab
