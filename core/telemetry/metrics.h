// Everything a run measures: one table of names, units and meanings, from which docs/metrics.md
// follows; and metrics.jsonl, one object a step. A name that is not in the table cannot be written.
// In names <layer> stands for a 0-based block, <name> for a balancer's label, <reason> for a reason
// of dropping.
#pragma once
#include <cstdint>
#include <fstream>
#include <span>
#include <string>
#include <string_view>

namespace moelab {

struct Metric {
  std::string_view name, unit, meaning;
};
std::span<const Metric> metric_table();
bool is_declared_metric(std::string_view name);
std::string metrics_markdown();  // docs/metrics.md

// One line of metrics.jsonl. Numbers read back exactly; what is not finite is written as the
// strings "NaN", "Infinity" and "-Infinity", which JSON has no numbers for.
class MetricsRow {
 public:
  explicit MetricsRow(std::int64_t step);
  void set(std::string_view name, double value);  // REQUIRES: declared
  void set(std::string_view name, std::int64_t value);
  std::string text() const { return text_ + "}"; }

 private:
  void key(std::string_view name);
  std::string text_;
};

class MetricsLog {
 public:
  // Appends to `path` after dropping every line beyond step `last` (and what a crash left half
  // written). Throws Error(resources).
  MetricsLog(std::string path, std::int64_t last);
  void write(const MetricsRow& row);  // flushed to the system

 private:
  std::string path_;
  std::ofstream file_;
};

std::string json_string(std::string_view text);  // quoted and escaped
std::string json_number(double value);           // as in MetricsRow

}  // namespace moelab
