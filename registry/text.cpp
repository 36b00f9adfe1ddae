#include "registry/text.h"

#include <algorithm>
#include <charconv>
#include <utility>
#include <vector>

namespace moelab {

std::string exact(double value) {
  char buffer[40];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, printable(value)).ptr;
  return {buffer, end};
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substitute = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substitute});
    }
  }
  return row.back();
}

std::size_t suggestion_limit(std::string_view wrong) {
  return wrong.size() > 64 ? 0 : std::max<std::size_t>(2, wrong.size() / 3);
}

}  // namespace moelab
