#include "core/base/threads.h"

#include <omp.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <exception>
#include <mutex>
#include <vector>

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

// The items [0, n), cut into a contiguous share a worker.
class Shares {
 public:
  Shares(std::int64_t n, int workers) : shares_(static_cast<std::size_t>(workers)) {
    MOELAB_CHECK(n < (std::int64_t{1} << 32), "items ", n);
    for (int w = 0; w < workers; ++w)
      shares_[static_cast<std::size_t>(w)].range =
          pack(static_cast<std::uint64_t>(n * w / workers),
               static_cast<std::uint64_t>(n * (w + 1) / workers));
  }
  // The next item for this worker: the first of its share, else the last of another's; −1: none.
  std::int64_t next(int worker) {
    const std::size_t own = static_cast<std::size_t>(worker);
    for (std::size_t i = 0; i < shares_.size(); ++i) {
      std::atomic<std::uint64_t>& range = shares_[(own + i) % shares_.size()].range;
      std::uint64_t seen = range.load();
      while (true) {
        const std::uint64_t begin = seen >> 32, end = seen & 0xFFFFFFFFu;
        if (begin == end) break;
        const bool mine = i == 0;
        if (range.compare_exchange_weak(seen, mine ? pack(begin + 1, end) : pack(begin, end - 1)))
          return static_cast<std::int64_t>(mine ? begin : end - 1);
      }
    }
    return -1;
  }

 private:
  static std::uint64_t pack(std::uint64_t begin, std::uint64_t end) { return begin << 32 | end; }
  struct alignas(64) Share {  // a cache line each
    std::atomic<std::uint64_t> range{0};
  };
  std::vector<Share> shares_;
};

}  // namespace

int hardware_threads() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return omp_get_num_procs();
  return std::max(1, CPU_COUNT(&set));
}

// The thread sanitizer cannot see how OpenMP's runtime synchronises: there, one thread a rank.
#if defined(__SANITIZE_THREAD__)
constexpr int kMostThreads = 1;
#else
constexpr int kMostThreads = INT_MAX;
#endif

// OpenMP keeps this number for each thread that starts parallel loops: exactly "per rank".
void set_threads(int count) {
  MOELAB_CHECK(count >= 1, "threads ", count);
  omp_set_num_threads(std::min(count, kMostThreads));
}

int threads() { return omp_in_parallel() ? 1 : omp_get_max_threads(); }

void run_items(std::int64_t n, const void* body, void (*call)(const void*, std::int64_t, int)) {
  const int team = static_cast<int>(std::min<std::int64_t>(threads(), n));
  if (team <= 1) {
    for (std::int64_t i = 0; i < n; ++i) call(body, i, 0);
    return;
  }
  FirstFailure failure;
  Shares shares(n, team);
#pragma omp parallel num_threads(team)
  {
    const int worker = omp_get_thread_num();
    for (std::int64_t i; (i = shares.next(worker)) >= 0;)
      failure.keep([&] { call(body, i, worker); });
  }
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
