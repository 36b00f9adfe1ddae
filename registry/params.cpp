#include "registry/params.h"

#include <cmath>

#include "registry/text.h"

namespace moelab {

std::string Rule::text() const {
  if (least && most)
    return str("in ", open_least ? "(" : "[", exact(*least), ", ", exact(*most),
               open_most ? ")" : "]");
  if (least) return str(open_least ? "greater than " : "at least ", exact(*least));
  if (most) return str(open_most ? "less than " : "at most ", exact(*most));
  return {};
}

bool Rule::holds(double value) const {
  if (!std::isfinite(value)) return false;
  if (least && (open_least ? value <= *least : value < *least)) return false;
  if (most && (open_most ? value >= *most : value > *most)) return false;
  return true;
}

}  // namespace moelab
