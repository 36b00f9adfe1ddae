#include "core/moe/exchange.h"

#include <numeric>

namespace moelab {
namespace {

Shape with_rows(const Shape& shape, Index rows) {
  switch (shape.rank()) {
    case 1:
      return {rows};
    case 2:
      return {rows, shape[1]};
    default:
      MOELAB_CHECK(shape.rank() == 3, "rows of ", shape.text());
      return {rows, shape[1], shape[2]};
  }
}

std::vector<Tensor> all_to_all(const Backend& backend, Group& group, const std::vector<Tensor>& x,
                               const std::vector<Index>& send, const std::vector<Index>& receive) {
  const Index rows = std::accumulate(receive.begin(), receive.end(), Index{0});
  std::vector<Tensor> out;
  std::vector<Pending> pending;
  for (const Tensor& t : x) {
    out.push_back(backend.empty(t.dtype(), with_rows(t.shape(), rows)));
    pending.push_back(group.all_to_all_v(t, send, out.back(), receive));
  }
  for (Pending& each : pending) each.wait();
  return out;
}

// A rank whose rows got no gradient still takes part, with zeros.
Tensor grad_or_zeros(const Tape& tape, const GradSlot& slot) {
  const Tensor dy = tape.grad(slot);
  return dy ? dy : tape.backend().zeros(slot.dtype, slot.shape);
}

}  // namespace

std::vector<Variable> exchange_rows(Tape& tape, const std::shared_ptr<Group>& group,
                                    const ExchangeCounts& counts, const std::vector<Variable>& x) {
  const OpTimer timer(tape, "exchange_rows");
  std::vector<Tensor> received = tape.remember([&] {
    std::vector<Tensor> values;
    for (const Variable& v : x) values.push_back(v.value);
    return all_to_all(tape.backend(), *group, values, counts.send, counts.receive);
  });
  std::vector<Variable> out;
  std::vector<GradSlot> x_slots, y_slots;
  for (std::size_t i = 0; i < x.size(); ++i) {
    out.push_back(tape.output(std::move(received[i]), {&x[i]}));
    if (!out.back().needs_grad()) continue;
    x_slots.push_back(x[i].slot());
    y_slots.push_back(out.back().slot());
  }
  if (!y_slots.empty()) {
    tape.step("exchange_rows", y_slots, [group, counts, x_slots, y_slots](Tape& t) {
      std::vector<Tensor> dy;
      for (const GradSlot& slot : y_slots) dy.push_back(grad_or_zeros(t, slot));
      const auto dx = all_to_all(t.backend(), *group, dy, counts.receive, counts.send);
      for (std::size_t i = 0; i < dx.size(); ++i) t.give(x_slots[i], dx[i]);
    });
  }
  return out;
}

Variable gather_ranks(Tape& tape, const std::shared_ptr<Group>& group, const Variable& x_TD,
                      Index most) {
  const OpTimer timer(tape, "gather_ranks");
  const Index rows = x_TD.value.size(0);
  const Shape padded = with_rows(x_TD.value.shape(), most);
  Tensor all = tape.remember([&] {
    Tensor mine = x_TD.value;
    if (rows < most) {
      mine = tape.backend().zeros(x_TD.value.dtype(), padded);
      copy(x_TD.value, mine.rows(0, rows));
    }
    Tensor out = tape.backend().empty(x_TD.value.dtype(), with_rows(padded, most * group->size()));
    group->all_gather(mine, out).wait();
    return out;
  });
  Variable y = tape.output(std::move(all), {&x_TD});
  if (y.needs_grad()) {
    tape.step("gather_ranks", {y.slot()},
              [group, padded, rows, x = x_TD.slot(), y = y.slot()](Tape& t) {
                const Tensor dx = t.backend().empty(x.dtype, padded);
                group->reduce_scatter(t.grad(y), dx).wait();
                t.give(x, dx.rows(0, rows));
              });
  }
  return y;
}

}  // namespace moelab
