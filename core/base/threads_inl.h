// Templates of threads.h. Without OpenMP (tsan) they are plain loops.
#pragma once
#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>

namespace moelab {

template <class Body>
void parallel_items(std::int64_t n, const Body& body) {
  if (n <= 0) return;
  const int team = static_cast<int>(std::min<std::int64_t>(threads(), n));
  if (team <= 1) {
    for (std::int64_t i = 0; i < n; ++i) body(i);
    return;
  }
  std::exception_ptr failure;
  std::mutex guard;
#pragma omp parallel for num_threads(team) schedule(dynamic, 1)
  for (std::int64_t i = 0; i < n; ++i) {
    try {
      body(i);
    } catch (...) {
      const std::lock_guard lock(guard);
      if (!failure) failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
}

template <class Body>
void parallel_ranges(std::int64_t n, std::int64_t grain, const Body& body) {
  if (n <= 0) return;
  const std::int64_t pieces = std::max<std::int64_t>(1, n / std::max<std::int64_t>(1, grain));
  const int team = static_cast<int>(std::min<std::int64_t>(threads(), pieces));
  if (team <= 1) {
    body(std::int64_t{0}, n);
    return;
  }
  std::exception_ptr failure;
  std::mutex guard;
#pragma omp parallel for num_threads(team) schedule(static)
  for (int p = 0; p < team; ++p) {
    try {
      body(n * p / team, n * (p + 1) / team);
    } catch (...) {
      const std::lock_guard lock(guard);
      if (!failure) failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace moelab
