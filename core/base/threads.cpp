#include "core/base/threads.h"

#include <omp.h>
#include <sched.h>

#include "core/base/check.h"

namespace moelab {

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

}  // namespace moelab
