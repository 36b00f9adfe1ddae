// Do passes after the first take memory from the system, or more of it at once?
#pragma once
#include <doctest/doctest.h>

#include "core/backend/backend.h"
#include "core/base/threads.h"

namespace moelab::testing {

// On each of several numbers of threads: first(), then more(), during which the backend's arena
// asks the system for nothing and its peak stays.
template <class First, class More>
void check_steady_memory(const Backend& backend, const First& first, const More& more) {
  const int before = threads();
  for (const int count : {1, 2, 5}) {
    CAPTURE(count);
    set_threads(count);
    first();
    const ArenaCounters warm = backend.arena().counters();
    more();
    CHECK(backend.arena().counters().system_allocations == warm.system_allocations);
    CHECK(backend.arena().counters().peak_bytes == warm.peak_bytes);
  }
  set_threads(before);
}

}  // namespace moelab::testing
