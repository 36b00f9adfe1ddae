#include "core/backend/arena.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <thread>
#include <vector>

#include "core/base/memory.h"
#include "core/base/rng.h"
#include "registry/error.h"

using namespace moelab;

TEST_CASE("live and peak bytes are what was asked for") {
  const auto arena = Arena::create();
  {
    const auto a = arena->allocate(1000);
    const auto b = arena->allocate(3'000'000);
    CHECK(reinterpret_cast<std::uintptr_t>(a->data()) % 64 == 0);
    CHECK(reinterpret_cast<std::uintptr_t>(b->data()) % 64 == 0);
    CHECK(arena->counters().live_bytes == 3'001'000);
  }
  CHECK(arena->counters().live_bytes == 0);
  CHECK(arena->counters().peak_bytes == 3'001'000);
  arena->reset_peak();
  CHECK(arena->counters().peak_bytes == 0);
  CHECK(arena->allocate(0)->data() != nullptr);
}

TEST_CASE("after warm-up varying sizes ask the system for nothing") {
  const auto arena = Arena::create();
  const Rng rng(1, "sizes");
  const auto step = [&](std::uint64_t n) {
    std::vector<std::shared_ptr<Storage>> live;
    for (std::uint64_t i = 0; i < 24; ++i) {  // row counts that vary by a third, as routing's do
      const std::uint64_t rows = 300 + rng.below(n * 24 + i, 100);
      live.push_back(arena->allocate(rows * 512 * (1 + i % 3)));
    }
  };
  for (std::uint64_t n = 0; n < 40; ++n) step(n);
  const auto before = arena->counters();
  for (std::uint64_t n = 40; n < 80; ++n) step(n);
  CHECK(arena->counters().system_allocations == before.system_allocations);
  CHECK(arena->counters().reserved_bytes == before.reserved_bytes);
}

TEST_CASE("no memory is an error that names the size, and leaves the arena usable") {
  const auto arena = Arena::create();
  try {
    arena->allocate(std::size_t{1} << 60);
    FAIL("allocated 2^60 bytes");
  } catch (const Error& e) {
    CHECK(e.code() == ExitCode::resources);
    CHECK(std::string(e.what()).find("1152921504606846976") != std::string::npos);
  }
  CHECK(arena->counters().live_bytes == 0);
  CHECK(arena->allocate(10)->bytes() == 10);
}

TEST_CASE("more than the system has left is an error, not a process killed at the first touch") {
  const auto arena = Arena::create();
  const std::size_t left = available_memory();
  REQUIRE(left > 0);
  CHECK_THROWS_AS(arena->allocate(left + (std::size_t{1} << 30)), Error);
  CHECK(arena->counters().reserved_bytes == 0);
  CHECK(arena->allocate(std::size_t{4} << 20)->data() != nullptr);
}

#if !defined(__SANITIZE_ADDRESS__)  // which touches every block
TEST_CASE("blocks that nobody has touched yet count against what the system has left") {
  const auto arena = Arena::create();
  const std::size_t most = available_memory() / 5 * 3;  // fits once, not twice
  const auto first = arena->allocate(most);
  CHECK_THROWS_AS(arena->allocate(most), Error);
}
#endif

TEST_CASE("blocks may come and go on several threads, and outlive the caller's pointer") {
  auto arena = Arena::create();
  std::vector<std::shared_ptr<Storage>> kept(4);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (std::size_t i = 1; i < 200; ++i) {
        const auto block = arena->allocate(i * 100);
        std::fill_n(block->data(), block->bytes(), static_cast<std::byte>(t));
        if (i == 100) kept[t] = block;
      }
    });
  for (std::thread& t : threads) t.join();
  CHECK(arena->counters().live_bytes == 4 * 10'000);
  arena.reset();
  for (std::size_t t = 0; t < 4; ++t) CHECK(kept[t]->data()[9999] == static_cast<std::byte>(t));
}
