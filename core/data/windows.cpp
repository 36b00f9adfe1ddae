#include "core/data/windows.h"

#include <algorithm>

#include "core/base/check.h"
#include "core/base/rng.h"

namespace moelab {

std::int64_t RowOrder::windows(std::int64_t length, std::int64_t size) const {
  const std::int64_t whole =
      order == Order::shuffled ? (size - length) / length : (size - 2) / length;
  return std::max<std::int64_t>(1, whole);
}

std::int64_t RowOrder::window(std::int64_t step, std::int64_t row, std::int64_t length,
                              std::int64_t size) const {
  MOELAB_CHECK(size >= length + 2, "size ", size, " length ", length);
  const std::int64_t index = step * batch + row;
  if (order == Order::sequential) return index * length % (size - length - 1);
  // Windows of an epoch lie end to end; its offset moves their cuts, so that no text stays at the
  // start of a window for ever.
  const std::int64_t n = windows(length, size), offsets = std::min(length, size - n * length);
  const auto epoch = static_cast<std::uint64_t>(index / n);
  const Rng offset(seed, "data/offset");
  return static_cast<std::int64_t>(offset.below(epoch, static_cast<std::uint64_t>(offsets))) +
         item(step, row, n) * length;
}

std::int64_t RowOrder::item(std::int64_t step, std::int64_t row, std::int64_t n) const {
  const std::int64_t index = step * batch + row;
  if (order == Order::sequential) return index % n;
  const Rng shuffle(seed, "data/shuffle", static_cast<std::uint64_t>(index / n));
  return static_cast<std::int64_t>(
      permuted(shuffle, static_cast<std::uint64_t>(index % n), static_cast<std::uint64_t>(n)));
}

}  // namespace moelab
