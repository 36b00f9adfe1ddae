#include <algorithm>

#include "core/autograd/functions.h"
#include "core/ops/rope.k.h"

namespace moelab {
namespace {

// The table and the row each token takes of it: a row a position where positions repeat, else a row
// a token.
struct Table {
  Tensor table_PD, row_T;
};

Table make_table(const Backend& backend, DType dtype, Index head_dim, double theta,
                 const Tensor& position_T) {
  const auto position = position_T.span<std::int32_t>();
  const auto [least, most] = std::minmax_element(position.begin(), position.end());
  if (position.empty()) return {backend.empty(dtype, {0, head_dim}), position_T};
  MOELAB_CHECK(*least >= 0, "position ", *least);
  const Index tokens = position_T.numel();
  const bool shared = *most < tokens;
  const Index rows = shared ? Index{*most} + 1 : tokens;
  Table out{backend.empty(dtype, {rows, head_dim}), shared ? position_T : Tensor{}};
  dispatch_real(dtype, "rope", [&]<class T>(T) {
    cpu_kernels::rope_table<T>(rows, head_dim, theta, shared ? nullptr : position.data(),
                               out.table_PD.data<T>());
  });
  return out;
}

void turn(const Tensor& x, Index heads, const Table& table, double direction, const Tensor& y) {
  const std::int32_t* row = table.row_T ? table.row_T.data<std::int32_t>() : nullptr;
  dispatch_real(x.dtype(), "rope", [&]<class T>(T) {
    cpu_kernels::rope_turn<T>(x.size(0), heads, x.size(1) / heads, x.data<T>(),
                              table.table_PD.data<T>(), row, static_cast<T>(direction),
                              y.data<T>());
  });
}

}  // namespace

Variable rope(Tape& tape, const Variable& x, Index heads, double theta, const Tensor& position_T) {
  const OpTimer timer(tape, "rope");
  const Index head_dim = x.value.size(1) / heads;
  MOELAB_CHECK(x.value.size(1) == heads * head_dim && head_dim % 2 == 0, "rope of ",
               x.value.shape().text(), " with ", heads, " heads");
  MOELAB_CHECK(position_T.numel() == x.value.size(0), position_T.numel(), " positions for ",
               x.value.shape().text());
  const Table table = make_table(tape.backend(), x.value.dtype(), head_dim, theta, position_T);
  const Variable y = tape.output(tape.backend().empty_like(x.value), {&x});
  turn(x.value, heads, table, 1.0, y.value);
  if (y.needs_grad())
    tape.step("rope", {y.slot()}, [table, heads, x = x.slot(), y = y.slot()](Tape& t) {
      const Tensor dy = t.grad(y);  // nobody needs it after this step
      turn(dy, heads, table, -1.0, dy);
      t.give(x, dy);
    });
  return y;
}

}  // namespace moelab
