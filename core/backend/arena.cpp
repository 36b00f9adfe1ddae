#include "core/backend/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include "core/base/memory.h"
#include "registry/error.h"

// Under the address sanitizer cached memory is poisoned, and fresh contents are NaN.
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, size) static_cast<void>(0)
#define ASAN_UNPOISON_MEMORY_REGION(address, size) static_cast<void>(0)
#endif

namespace moelab {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kHugePage = std::size_t{2} << 20;

// Powers of two: row counts that vary from step to step then nearly always share a class. Pages of
// a block's tail that nobody touches cost no memory.
std::size_t size_class(std::size_t bytes) { return std::bit_ceil(std::max(kAlignment, bytes)); }

std::byte* map_huge(std::size_t bytes) {  // aligned to huge pages
  const std::size_t padded = bytes + kHugePage;
  void* raw = mmap(nullptr, padded, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (raw == MAP_FAILED) return nullptr;
  auto* const base = static_cast<std::byte*>(raw);
  const std::size_t head =
      (kHugePage - std::bit_cast<std::uintptr_t>(base) % kHugePage) % kHugePage;
  if (head > 0) munmap(base, head);
  munmap(base + head + bytes, padded - head - bytes);
  madvise(base + head, bytes, MADV_HUGEPAGE);  // a wish: without it memory is merely slower
  return base + head;
}

// Null when memory is out. The system promises more than it has and kills who touches it, so large
// blocks are asked for only while it has that much, beside the `live` bytes handed out before: some
// of those may not have been touched yet.
std::byte* take_from_system(std::size_t cls, std::size_t bytes, std::size_t live) {
  if (bytes >= kHugePage) {
    const std::size_t untouched = live - std::min(live, resident_memory());
    if (bytes + untouched > available_memory()) return nullptr;
  }
  if (cls >= kHugePage) return map_huge(cls);
  return static_cast<std::byte*>(std::aligned_alloc(kAlignment, cls));
}
void give_to_system(std::byte* data, std::size_t cls) {
  ASAN_UNPOISON_MEMORY_REGION(data, cls);
  if (cls >= kHugePage)
    munmap(data, cls);
  else
    std::free(data);
}

}  // namespace

struct Arena::State {
  std::mutex guard;
  ArenaCounters counters;
  std::map<std::size_t, std::vector<std::byte*>> free;  // by class

  // A cached block of class `cls` or the next, its true class through `cls`.
  std::byte* reuse(std::size_t& cls) {
    for (auto at = free.lower_bound(cls); at != free.end() && at->first <= 2 * cls; ++at) {
      if (at->second.empty()) continue;
      std::byte* data = at->second.back();
      at->second.pop_back();
      cls = at->first;
      return data;
    }
    return nullptr;
  }
  void drop_cache() {
    for (auto& [cls, blocks] : free) {
      for (std::byte* data : blocks) give_to_system(data, cls);
      counters.reserved_bytes -= cls * blocks.size();
    }
    free.clear();
  }
};

class ArenaBlock final : public Storage {
 public:
  ArenaBlock(std::shared_ptr<Arena> arena, std::byte* data, std::size_t bytes, std::size_t cls)
      : arena_(std::move(arena)), class_(cls) {
    data_ = data;
    bytes_ = bytes;
  }
  ~ArenaBlock() override {
    ASAN_POISON_MEMORY_REGION(data_, class_);
    Arena::State& state = *arena_->state_;
    const std::lock_guard lock(state.guard);
    state.counters.live_bytes -= bytes_;
    state.free[class_].push_back(data_);
  }
  ArenaBlock(const ArenaBlock&) = delete;
  ArenaBlock& operator=(const ArenaBlock&) = delete;

 private:
  std::shared_ptr<Arena> arena_;
  std::size_t class_;
};

Arena::Arena() : state_(std::make_unique<State>()) {}
Arena::~Arena() { state_->drop_cache(); }
std::shared_ptr<Arena> Arena::create() { return std::shared_ptr<Arena>(new Arena); }

std::shared_ptr<Storage> Arena::allocate(std::size_t bytes) {
  constexpr std::size_t kLargest = std::size_t{1} << 46;
  std::size_t cls = size_class(std::min(bytes, kLargest));
  std::byte* data = nullptr;
  {
    const std::lock_guard lock(state_->guard);
    ArenaCounters& counters = state_->counters;
    data = state_->reuse(cls);
    if (!data && bytes <= kLargest) {
      data = take_from_system(cls, bytes, counters.live_bytes);
      if (!data) {
        state_->drop_cache();
        data = take_from_system(cls, bytes, counters.live_bytes);
      }
      ++counters.system_allocations;
      if (data) counters.reserved_bytes += cls;
    }
    if (!data)
      throw Error(ExitCode::resources,
                  str("out of memory: a tensor of ", bytes, " bytes does not fit beside ",
                      counters.live_bytes, " bytes in use; lower train.batch, ",
                      "data.sequence_length or the model's widths, or raise train.accumulate"));
    counters.live_bytes += bytes;
    counters.peak_bytes = std::max(counters.peak_bytes, counters.live_bytes);
  }
  ASAN_POISON_MEMORY_REGION(data, cls);
  ASAN_UNPOISON_MEMORY_REGION(data, bytes);
#if defined(__SANITIZE_ADDRESS__)
  std::memset(data, 0xFF, bytes);
#endif
  return std::make_shared<ArenaBlock>(shared_from_this(), data, bytes, cls);
}

ArenaCounters Arena::counters() const {
  const std::lock_guard lock(state_->guard);
  return state_->counters;
}

void Arena::reset_peak() {
  const std::lock_guard lock(state_->guard);
  state_->counters.peak_bytes = state_->counters.live_bytes;
}

}  // namespace moelab
