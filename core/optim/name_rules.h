// Rules on parameters by their names: "pattern = factor", where * stands for any text and ? for one
// character. The first rule that matches counts.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "registry/problem.h"

namespace moelab {

bool glob_matches(std::string_view pattern, std::string_view name);

class NameRules {
 public:
  NameRules() = default;
  explicit NameRules(const std::vector<std::string>& rules);  // REQUIRES: problem("") each
  double factor(std::string_view name) const;                 // 1 without a matching rule
  // Throws Error(usage) when a pattern matches none of `names`; `key` stands before its text.
  void require_matches(const std::vector<std::string>& names, std::string_view key) const;
  // "" or why `rule` cannot be read.
  static std::string problem(const std::string& rule);

 private:
  struct Rule {
    std::string pattern;
    double factor = 1;
  };
  std::vector<Rule> rules_;
};

// Reports every rule of the list under `key` that cannot be read.
void check_name_rules(const std::vector<std::string>& rules, std::string_view key, Checker& c);

}  // namespace moelab
