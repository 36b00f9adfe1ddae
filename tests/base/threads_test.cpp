#include "core/base/threads.h"

#include <doctest/doctest.h>

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

using namespace moelab;

TEST_CASE("the number of threads belongs to the calling thread") {
  const int before = threads();
  set_threads(3);
  CHECK(threads() == 3);
  std::thread([] {
    set_threads(2);
    CHECK(threads() == 2);
  }).join();
  CHECK(threads() == 3);
  set_threads(before);
  CHECK(hardware_threads() >= 1);
}

TEST_CASE("every item and every index is visited exactly once") {
  const int before = threads();
  for (const int count : {1, 2, 4}) {
    set_threads(count);
    std::vector<std::atomic<int>> items(37), indices(1001);
    parallel_items(37, [&](std::int64_t i) { ++items[static_cast<std::size_t>(i)]; });
    parallel_ranges(1001, 10, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) ++indices[static_cast<std::size_t>(i)];
    });
    std::vector<std::atomic<int>> busy(static_cast<std::size_t>(count));
    parallel_items(37, [&](std::int64_t i, int worker) {
      auto& own = busy.at(static_cast<std::size_t>(worker));
      if (own++ != 0) FAIL("two items at once with the same worker");
      ++items[static_cast<std::size_t>(i)];
      --own;
    });
    for (const auto& n : items) CHECK(n == 2);
    for (const auto& n : indices) CHECK(n == 1);
    parallel_items(0, [](std::int64_t) { FAIL("no item exists"); });
  }
  set_threads(before);
}

TEST_CASE("an exception of a worker reaches the caller; nested loops run inside their worker") {
  const int before = threads();
  set_threads(4);
  CHECK_THROWS_AS(parallel_items(8,
                                 [](std::int64_t i) {
                                   if (i == 5) throw std::runtime_error("five");
                                 }),
                  std::runtime_error);
  std::vector<int> inner(4);
  parallel_items(4, [&](std::int64_t i) { inner[static_cast<std::size_t>(i)] = threads(); });
  for (const int count : inner) CHECK(count == 1);
  set_threads(before);
}
