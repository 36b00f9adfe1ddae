// Which tokens a training row shows: pure functions of (seed, step, row), so that any layout and
// any resume sees the same windows without having stored an order.
#pragma once
#include <array>
#include <cstdint>

#include "registry/params.h"

namespace moelab {

enum class Order : std::uint8_t { shuffled, sequential };
template <>
struct EnumNames<Order> {
  static constexpr std::array<std::pair<std::string_view, Order>, 2> value{
      {{"shuffled", Order::shuffled}, {"sequential", Order::sequential}}};
};

struct RowOrder {
  Order order = Order::shuffled;
  std::uint64_t seed = 0;
  std::int64_t batch = 0;  // rows a step, over all ranks

  // The first token of the window that row `row` of step `step` shows: L = length inputs and the
  // target after the last one. REQUIRES size ≥ length + 2.
  // shuffled: an epoch visits every window once, in an order and at an offset of its own.
  // sequential: ((step·batch + row)·length) mod (size − length − 1).
  std::int64_t window(std::int64_t step, std::int64_t row, std::int64_t length,
                      std::int64_t size) const;

  // The windows of an epoch; in order: until the text begins again.
  std::int64_t windows(std::int64_t length, std::int64_t size) const;

  // Which of n ≥ 1 items the row shows: each once an epoch, permuted or in order.
  std::int64_t item(std::int64_t step, std::int64_t row, std::int64_t n) const;
};

}  // namespace moelab
