#include "core/base/threads.h"

#include <omp.h>
#include <sched.h>

#include <algorithm>
#include <exception>
#include <mutex>

#include "core/base/check.h"

namespace moelab {
namespace {

class FirstFailure {  // of the bodies on a team; reaches the caller
 public:
  template <class Work>
  void keep(const Work& work) {
    try {
      work();
    } catch (...) {
      const std::lock_guard lock(guard_);
      if (!failure_) failure_ = std::current_exception();
    }
  }
  void rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  std::mutex guard_;
  std::exception_ptr failure_;
};

}  // namespace

int hardware_threads() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return omp_get_num_procs();
  return std::max(1, CPU_COUNT(&set));
}

// OpenMP keeps this number for each thread that starts parallel loops: exactly "per rank".
void set_threads(int count) {
  MOELAB_CHECK(count >= 1, "threads ", count);
  omp_set_num_threads(count);
}

int threads() { return omp_in_parallel() ? 1 : omp_get_max_threads(); }

void run_items(std::int64_t n, const void* body, void (*call)(const void*, std::int64_t)) {
  const int team = static_cast<int>(std::min<std::int64_t>(threads(), n));
  if (team <= 1) {
    for (std::int64_t i = 0; i < n; ++i) call(body, i);
    return;
  }
  FirstFailure failure;
#pragma omp parallel for num_threads(team) schedule(dynamic, 1)
  for (std::int64_t i = 0; i < n; ++i) failure.keep([&] { call(body, i); });
  failure.rethrow();
}

void run_ranges(std::int64_t n, std::int64_t grain, const void* body,
                void (*call)(const void*, std::int64_t, std::int64_t)) {
  if (n <= 0) return;
  const std::int64_t pieces = std::max<std::int64_t>(1, n / std::max<std::int64_t>(1, grain));
  const int team = static_cast<int>(std::min<std::int64_t>(threads(), pieces));
  if (team <= 1) return call(body, 0, n);
  FirstFailure failure;
#pragma omp parallel for num_threads(team) schedule(static)
  for (int p = 0; p < team; ++p)
    failure.keep([&] { call(body, n * p / team, n * (p + 1) / team); });
  failure.rethrow();
}

}  // namespace moelab
