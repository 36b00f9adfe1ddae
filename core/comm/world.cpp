#include "core/comm/world.h"

#include <exception>
#include <numeric>

namespace moelab {

Pending& Pending::operator=(Pending&& other) {
  if (this != &other) {
    wait();
    work_ = std::move(other.work_);
  }
  return *this;
}

void Pending::wait() {
  if (!work_) return;
  const std::unique_ptr<Work> work = std::move(work_);
  work->wait();
}

// While an exception unwinds this rank, the others may never come: the work is given up (its own
// destructor does that). Otherwise a failure here is not lost: it has failed the world, and the
// next collective of this rank throws.
Pending::~Pending() {
  if (!work_ || std::uncaught_exceptions() > 0) return;
  try {
    wait();
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): see above
  }
}

std::shared_ptr<Group> Rank::everyone() {
  std::vector<int> ranks(static_cast<std::size_t>(size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return group(ranks, "world");
}

}  // namespace moelab
