#include "registry/params.h"

#include <cmath>

#include "registry/text.h"

namespace moelab {

namespace {

std::string bound(double value) {  // 10000000, not 1e+07
  constexpr double kPlain = 1e15;
  if (value == std::floor(value) && std::fabs(value) < kPlain)
    return std::to_string(static_cast<std::int64_t>(value));
  return exact(value);
}

}  // namespace

std::string Rule::text() const {
  if (least && most)
    return str("in ", open_least ? "(" : "[", bound(*least), ", ", bound(*most),
               open_most ? ")" : "]");
  if (least) return str(open_least ? "greater than " : "at least ", bound(*least));
  if (most) return str(open_most ? "less than " : "at most ", bound(*most));
  return {};
}

bool Rule::holds(double value) const {
  if (!std::isfinite(value)) return false;
  if (least && (open_least ? value <= *least : value < *least)) return false;
  if (most && (open_most ? value >= *most : value > *most)) return false;
  return true;
}

}  // namespace moelab
