// What benchmarks do with their samples.
#pragma once
#include <algorithm>
#include <chrono>
#include <vector>

namespace moelab {

inline double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

inline double median(std::vector<double> values) {  // 0 of none; the upper one of two in the middle
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace moelab
