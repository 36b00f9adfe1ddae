#include "core/train/index_set.h"

#include <algorithm>
#include <charconv>
#include <limits>

namespace moelab {
namespace {

void skip_spaces(std::string_view& text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
}

// Takes a number from the front of `text`; nothing when there is none.
std::optional<Index> take_number(std::string_view& text) {
  Index value = 0;
  const auto [stop, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc() || value < 0) return {};
  text.remove_prefix(static_cast<std::size_t>(stop - text.data()));
  return value;
}

bool take(std::string_view& text, char wanted) {
  if (text.empty() || text.front() != wanted) return false;
  text.remove_prefix(1);
  return true;
}

}  // namespace

std::optional<IndexSet> IndexSet::parse(std::string_view text) {
  IndexSet out;
  skip_spaces(text);
  if (text == "all") {
    out.all_ = true;
    out.ranges_.push_back({0, std::numeric_limits<Index>::max(), 1});
    return out;
  }
  while (!text.empty()) {
    Range range;
    const auto first = take_number(text);
    if (!first) return {};
    range.first = range.last = *first;
    if (take(text, '-')) {
      const auto last = take_number(text);
      if (!last || *last < *first) return {};
      range.last = *last;
    }
    if (take(text, '/')) {
      const auto stride = take_number(text);
      if (!stride || *stride < 1) return {};
      range.stride = *stride;
    }
    out.ranges_.push_back(range);
    skip_spaces(text);
    if (!text.empty() && !take(text, ',')) return {};
    skip_spaces(text);
  }
  return out;
}

bool IndexSet::has(Index i) const {
  return std::ranges::any_of(ranges_, [&](const Range& range) {
    return i >= range.first && i <= range.last && (i - range.first) % range.stride == 0;
  });
}

Index IndexSet::largest() const {
  Index most = -1;
  for (const Range& range : ranges_)
    if (!all_) most = std::max(most, range.last - (range.last - range.first) % range.stride);
  return most;
}

}  // namespace moelab
