// What is wrong or doubtful about a recipe. Problems are collected, never thrown one by one.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "registry/node.h"
#include "registry/text.h"

namespace moelab {

struct Problem {
  enum class Severity : std::uint8_t { error, warning };
  Severity severity = Severity::error;
  Source source;
  std::string text;          // value, rule, remedy, nearest name
  std::string path;          // of the value it is about, "" for syntax
  std::string line() const;  // "tiny.toml:4:1: error: train.steps = 0 must be at least 1"
};

// One value of the resolved recipe, as `explain` prints it and the run folder keeps it.
struct ResolvedValue {
  std::string path;   // "ffn.moe.router.k"
  std::string value;  // TOML text
  std::string doc;
  Source source;
};

// Everything read so far: resolved values in reading order, and the problems met.
class Report {
 public:
  void resolved(ResolvedValue value) { values_.push_back(std::move(value)); }
  void problem(Problem problem) { problems_.push_back(std::move(problem)); }
  const std::vector<ResolvedValue>& values() const { return values_; }
  const std::vector<Problem>& problems() const { return problems_; }
  bool has_errors() const;
  // Where `path` was set; the nearest enclosing table's place if it is a default.
  Source source_of(std::string_view path) const;
  std::string value_of(std::string_view path) const;  // TOML text, "" if unknown
  bool has_error_at(std::string_view path) const;
  std::string lines() const;  // every problem, one a line, by file and position

 private:
  std::vector<ResolvedValue> values_;
  std::vector<Problem> problems_;
};

// What a component's check() reports through: keys are relative to its own table.
//   if (k > facts.experts) c.error("k", "is more than the layer's ", facts.experts, " experts;
//   lower k or raise experts");
class Checker {
 public:
  Checker(Report& report, std::string prefix) : report_(report), prefix_(std::move(prefix)) {}
  template <class... Parts>
  void error(std::string_view key, const Parts&... parts) {
    add(Problem::Severity::error, key, str(parts...));
  }
  template <class... Parts>
  void warning(std::string_view key, const Parts&... parts) {
    add(Problem::Severity::warning, key, str(parts...));
  }
  Checker under(std::string_view key) const;  // for a nested table
  const std::string& prefix() const { return prefix_; }
  Report& report() const { return report_; }

 private:
  // Text becomes "<path> = <value> <text>". Silent where the value itself is already a mistake.
  void add(Problem::Severity severity, std::string_view key, const std::string& text);
  Report& report_;
  std::string prefix_;
};

}  // namespace moelab
