#include "core/optim/name_rules.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <utility>

#include "registry/error.h"

namespace moelab {
namespace {

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

std::optional<std::pair<std::string, double>> parse(const std::string& rule) {
  const std::size_t equals = rule.rfind('=');
  if (equals == std::string::npos) return {};
  const std::string pattern(trimmed(std::string_view(rule).substr(0, equals)));
  const std::string number(trimmed(std::string_view(rule).substr(equals + 1)));
  char* end = nullptr;
  const double factor = std::strtod(number.c_str(), &end);
  if (pattern.empty() || number.empty() || *end != '\0' || !std::isfinite(factor) || factor < 0)
    return {};
  return std::pair(pattern, factor);
}

}  // namespace

bool glob_matches(std::string_view pattern, std::string_view name) {
  // Greedy with one point of return, the last star: linear in practice, never exponential.
  std::size_t p = 0, n = 0, star = std::string_view::npos, resume = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = n;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n])) {
      ++p;
      ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

NameRules::NameRules(const std::vector<std::string>& rules) {
  for (const std::string& text : rules)
    if (const auto rule = parse(text)) rules_.push_back({rule->first, rule->second});
}

double NameRules::factor(std::string_view name) const {
  for (const Rule& rule : rules_)
    if (glob_matches(rule.pattern, name)) return rule.factor;
  return 1.0;
}

void NameRules::require_matches(const std::vector<std::string>& names, std::string_view key) const {
  for (const Rule& rule : rules_)
    if (std::ranges::none_of(names,
                             [&](const auto& name) { return glob_matches(rule.pattern, name); }))
      throw Error(ExitCode::usage, str(key, ": '", rule.pattern,
                                       "' matches no parameter; names are those of checkpoints, "
                                       "such as ",
                                       names.back()));
}

std::string NameRules::problem(const std::string& rule) {
  if (parse(rule)) return {};
  return "must read 'pattern = factor' with a factor of at least 0, as in '*.mlp.gate.weight = "
         "0.1'";
}

void check_name_rules(const std::vector<std::string>& rules, std::string_view key, Checker& c) {
  std::string unread, problem;
  for (const std::string& rule : rules) {
    const std::string reason = NameRules::problem(rule);
    if (reason.empty()) continue;
    unread += str(unread.empty() ? "'" : ", '", rule, "'");
    problem = reason;
  }
  if (!unread.empty()) c.error(key, "has ", unread, ": a rule ", problem);
}

}  // namespace moelab
