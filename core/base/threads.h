// OpenMP is the only thread pool. Each rank (a thread of its own) has its share of the process's
// threads; results never depend on their number: work is cut into items independently of it.
#pragma once
#include <cstdint>

namespace moelab {

int hardware_threads();
void set_threads(int threads);  // for parallel loops started by the calling thread; ≥ 1
int threads();

// body(i) for i in [0, n), each exactly once, in any order, on threads() threads. A thread begins
// with its contiguous share, as in parallel_ranges: what it wrote there is in its caches. Items may
// differ in cost: who is done takes from the others' ends. Exceptions are rethrown in the caller.
// A body(i, worker) also learns which thread runs it, in [0, threads()): for scratch memory.
template <class Body>
void parallel_items(std::int64_t n, const Body& body);

// body(begin, end) over [0, n) in one contiguous piece a thread: for even, cheap work whose result
// does not depend on the cut.
template <class Body>
void parallel_ranges(std::int64_t n, std::int64_t grain, const Body& body);

}  // namespace moelab

#include "core/base/threads_inl.h"  // IWYU pragma: export
