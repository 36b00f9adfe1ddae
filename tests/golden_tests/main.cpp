// Runs every case of every suite in $MOELAB_GOLDEN (default: the source tree's tests/golden), or
// those that the arguments name: "megatron_topk", "megatron_topk/softmax*". Exit code 1 if any case
// fails or nothing was found.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "registry/text.h"
#include "test_paths.h"
#include "tests/golden_tests/suite.h"

namespace moelab::test {
namespace {

namespace fs = std::filesystem;
using Kind = Outcome::Kind;

bool fits(std::string_view pattern, std::string_view text) {
  if (!pattern.ends_with('*')) return pattern == text;
  pattern.remove_suffix(1);
  return text.starts_with(pattern);
}

const Deliberate* listed(const GoldenCase& c) {
  for (const Deliberate& one : deliberate_differences())
    if (one.suite == c.suite && fits(one.cases, c.name) && (one.where == nullptr || one.where(c)))
      return &one;
  return nullptr;
}

Outcome run(const GoldenCase& c) {
  const RunCase runner = runner_of(c.suite);
  if (runner == nullptr) return Outcome::failed("no runner knows the suite " + c.suite);
  Outcome outcome;
  try {
    outcome = runner(c);
  } catch (const std::exception& error) {
    return Outcome::failed(error.what());
  }
  if (outcome.kind == Kind::passed || outcome.kind == Kind::differs) {
    std::string unknown;
    for (const std::string& name : c.unread()) unknown += (unknown.empty() ? "" : ", ") + name;
    if (!unknown.empty()) return Outcome::failed("does not know " + unknown);
  }
  if (outcome.kind != Kind::differs) return outcome;
  if (const Deliberate* one = listed(c)) return {Kind::deliberate, std::string(one->reason)};
  return outcome;
}

// Which cases to run: none given, all.
struct Selection {
  std::vector<std::string> patterns;
  bool suite(const std::string& name) const {
    return patterns.empty() || std::ranges::any_of(patterns, [&](const std::string& pattern) {
             return fits(pattern.substr(0, pattern.find('/')), name);
           });
  }
  bool one(const std::string& suite_name, const std::string& name) const {
    return patterns.empty() || std::ranges::any_of(patterns, [&](const std::string& pattern) {
             return pattern.find('/') == std::string::npos ? fits(pattern, suite_name)
                                                           : fits(pattern, suite_name + "/" + name);
           });
  }
};

struct Totals {
  int cases = 0;
  std::map<Kind, int> of;
  Outcome worst;
};

void print(const std::string& suite, const Totals& totals) {
  const auto count = [&](Kind kind) {
    const auto at = totals.of.find(kind);
    return at == totals.of.end() ? 0 : at->second;
  };
  const std::string worst =
      totals.worst.tolerance > 0
          ? str(totals.worst.worst, " of ", totals.worst.tolerance, " (", totals.worst.text, ")")
          : "-";
  std::printf("%-20s %6d %7d %7d %11d %8d  %s\n", suite.c_str(), totals.cases, count(Kind::passed),
              count(Kind::failed) + count(Kind::differs), count(Kind::deliberate),
              count(Kind::not_yet), worst.c_str());
}

void add(Totals& totals, const Totals& more) {
  totals.cases += more.cases;
  for (const auto& [kind, count] : more.of) totals.of[kind] += count;
  if (more.worst.closer_to_failing(totals.worst)) totals.worst = more.worst;
}

class Findings {
 public:
  void note(const GoldenCase& c, const Outcome& outcome) {
    const std::string name = c.suite + "/" + c.name;
    if (outcome.kind == Kind::failed || outcome.kind == Kind::differs)
      failures_.push_back(name + ": " + outcome.text);
    if (outcome.kind == Kind::deliberate) deliberate_[outcome.text].push_back(name);
    if (outcome.kind == Kind::not_yet) not_yet_[outcome.text].push_back(name);
  }
  void fail(const std::string& text) { failures_.push_back(text); }
  void print() const {
    by_reason("deliberate", deliberate_);
    by_reason("not yet", not_yet_);
    for (const std::string& failure : failures_) std::printf("failed: %s\n", failure.c_str());
  }
  bool failed() const { return !failures_.empty(); }

 private:
  using ByReason = std::map<std::string, std::vector<std::string>>;
  static void by_reason(const char* what, const ByReason& cases) {
    for (const auto& [reason, names] : cases) {
      std::printf("%s: %s\n", what, reason.c_str());
      for (const std::string& name : names) std::printf("  %s\n", name.c_str());
    }
  }
  std::vector<std::string> failures_;
  ByReason deliberate_, not_yet_;
};

Totals run_suite(const fs::path& folder, const Selection& selection, Findings& findings) {
  Totals totals;
  for (const GoldenCase& c : read_suite(folder.string())) {
    if (!selection.one(c.suite, c.name)) continue;
    Outcome outcome = run(c);
    findings.note(c, outcome);
    ++totals.cases;
    ++totals.of[outcome.kind];
    outcome.text = c.name + ", " + outcome.text;
    if (outcome.kind == Kind::passed && outcome.closer_to_failing(totals.worst))
      totals.worst = outcome;
  }
  return totals;
}

int run_all(const std::string& root, const Selection& selection) {
  std::vector<fs::path> folders;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(root, error))
    if (fs::exists(entry.path() / "cases.json") && selection.suite(entry.path().filename()))
      folders.push_back(entry.path());
  std::ranges::sort(folders);
  std::printf("golden numbers in %s\n%-20s %6s %7s %7s %11s %8s  %s\n", root.c_str(), "suite",
              "cases", "passed", "failed", "deliberate", "not yet", "worst deviation");
  Findings findings;
  Totals all;
  for (const fs::path& folder : folders) {
    try {
      const Totals totals = run_suite(folder, selection, findings);
      print(folder.filename(), totals);
      add(all, totals);
    } catch (const std::exception& mistake) {
      findings.fail(folder.filename().string() + " cannot be read: " + mistake.what());
    }
    std::fflush(stdout);
  }
  print("all", all);
  if (all.cases == 0) findings.fail("no case found in " + root);
  findings.print();
  return findings.failed() ? 1 : 0;
}

}  // namespace
}  // namespace moelab::test

int main(int count, char** words) {
  const char* given = std::getenv("MOELAB_GOLDEN");
  const std::string root =
      given != nullptr && *given != '\0' ? given : MOELAB_SOURCE_DIR "/tests/golden";
  return moelab::test::run_all(root, {{words + 1, words + count}});
}
