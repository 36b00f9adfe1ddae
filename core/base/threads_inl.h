// Templates of threads.h. A body is compiled once and called through a pointer on one thread or on
// many: two inlined copies could differ in the last bit (they did: in what the compiler fused).
#pragma once
#include <type_traits>

namespace moelab {

// The loops themselves (threads.cpp); `call` hands its arguments to the body.
void run_items(std::int64_t n, const void* body,
               void (*call)(const void* body, std::int64_t i, int worker));
void run_ranges(std::int64_t n, std::int64_t grain, const void* body,
                void (*call)(const void* body, std::int64_t begin, std::int64_t end));

template <class Body>
void parallel_items(std::int64_t n, const Body& body) {
  run_items(n, &body, [](const void* b, std::int64_t i, [[maybe_unused]] int worker) {
    if constexpr (std::is_invocable_v<const Body&, std::int64_t, int>)
      (*static_cast<const Body*>(b))(i, worker);
    else
      (*static_cast<const Body*>(b))(i);
  });
}

template <class Body>
void parallel_ranges(std::int64_t n, std::int64_t grain, const Body& body) {
  run_ranges(n, grain, &body, [](const void* b, std::int64_t begin, std::int64_t end) {
    (*static_cast<const Body*>(b))(begin, end);
  });
}

}  // namespace moelab
