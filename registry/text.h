// Small text helpers: str(a, b, …) concatenates anything printable.
#pragma once
#include <limits>
#include <sstream>
#include <string>
#include <string_view>

namespace moelab {

// The value to print: NaN without its sign, which means nothing and would show as "-nan".
template <class T>
const T& printable(const T& value) {
  return value;
}
inline double printable(const double& value) {
  return value == value ? value : std::numeric_limits<double>::quiet_NaN();
}
inline float printable(const float& value) {
  return value == value ? value : std::numeric_limits<float>::quiet_NaN();
}

template <class... Parts>
std::string str(const Parts&... parts) {
  std::ostringstream out;
  static_cast<void>((out << ... << printable(parts)));
  return out.str();
}

// The shortest decimal text that reads back as exactly `value`.
std::string exact(double value);

// The member of `known` nearest to `wrong` (edit distance, prefix and substring aware), or "" when
// nothing is near enough to be worth proposing.
template <class Range>
std::string suggest(std::string_view wrong, const Range& known);
std::size_t edit_distance(std::string_view a, std::string_view b);
std::size_t suggestion_limit(std::string_view wrong);

template <class Range>
std::string suggest(std::string_view wrong, const Range& known) {
  std::string best;
  std::size_t least = suggestion_limit(wrong) + 1;
  for (const auto& candidate : known) {
    const std::string_view text = candidate;
    std::size_t distance = edit_distance(wrong, text);
    if (wrong.size() >= 3 && text.starts_with(wrong) && distance > 1) distance = 1;
    if (distance < least) {
      least = distance;
      best = text;
    }
  }
  return best;
}

}  // namespace moelab
