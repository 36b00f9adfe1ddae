// A caching allocator for the CPU. Freed blocks stay and are handed out again by size class, so
// that after warm-up no step asks the system for memory whatever the row counts; large blocks ask
// for huge pages. Thread safe. The counters are what `explain`, tests and metrics report.
#pragma once
#include <cstddef>
#include <memory>

#include "core/tensor/tensor.h"

namespace moelab {

struct ArenaCounters {
  std::size_t live_bytes = 0;          // requested by tensors that exist now
  std::size_t peak_bytes = 0;          // largest live_bytes since reset_peak()
  std::size_t reserved_bytes = 0;      // taken from the system
  std::size_t system_allocations = 0;  // how often the system was asked: constant after warm-up
};

class Arena : public std::enable_shared_from_this<Arena> {
 public:
  static std::shared_ptr<Arena> create();
  ~Arena();
  // 64-byte aligned, contents undefined. Throws Error(resources) naming the size when memory is
  // out.
  std::shared_ptr<Storage> allocate(std::size_t bytes);
  ArenaCounters counters() const;
  void reset_peak();

 private:
  Arena();
  friend class ArenaBlock;
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace moelab
