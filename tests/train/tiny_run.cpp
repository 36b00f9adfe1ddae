#include "tests/train/tiny_run.h"

#include <algorithm>
#include <cmath>
#include <regex>

#include "core/checkpoint/file_io.h"

namespace moelab::testing {

std::string TinyRun::bytes(const std::string& name) const { return read_text(path(name)); }

std::string TinyRun::metrics(const std::string& name) const {
  static const std::regex varying("\"(seconds|tokens_per_second|memory_peak_bytes)\": [^,}]*");
  return std::regex_replace(bytes(name + "/metrics.jsonl"), varying, "");
}

std::vector<double> TinyRun::numbers(const std::string& name, const std::string& metric) const {
  std::istringstream lines(bytes(name + "/metrics.jsonl"));
  std::vector<double> out;
  for (std::string line; std::getline(lines, line);) {
    const std::string key = "\"" + metric + "\": ";
    const std::size_t at = line.find(key);
    if (at != std::string::npos)
      out.push_back(std::strtod(line.c_str() + at + key.size(), nullptr));
  }
  return out;
}

double largest_deviation(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  REQUIRE_FALSE(a.empty());
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    most = std::max(most, std::abs(a[i] - b[i]) / std::abs(b[i]));
  return most;
}

}  // namespace moelab::testing
