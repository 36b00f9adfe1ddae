#include "tests/golden_tests/suite.h"

#include <algorithm>
#include <map>

#include "core/base/check.h"
#include "registry/text.h"

namespace moelab::test {
namespace {

std::map<std::string, RunCase>& runners() {
  static std::map<std::string, RunCase> all;
  return all;
}

}  // namespace

RunCase runner_of(const std::string& suite) {
  const auto at = runners().find(suite);
  return at == runners().end() ? nullptr : at->second;
}

RegisterSuite::RegisterSuite(const std::string& suite, RunCase run) {
  MOELAB_CHECK(runners().emplace(suite, run).second, "two runners of the suite ", suite);
}

bool Outcome::closer_to_failing(const Outcome& other) const {
  if (tolerance == 0 || other.tolerance == 0) return other.tolerance == 0 && tolerance != 0;
  return worst / tolerance > other.worst / other.tolerance;
}

Outcome Comparison::outcome() const {
  return compared_ ? outcome_ : Outcome::failed("compares nothing");
}

void Comparison::differs(const std::string& text) {
  if (outcome_.kind == Outcome::Kind::passed)
    outcome_.text = text;
  else
    outcome_.text += "; " + text;
  outcome_.kind = Outcome::Kind::differs;
}

void Comparison::same(const std::string& name, const Values& got, const Values& want,
                      double tolerance) {
  compared_ = true;
  if (got.size() != want.size())
    return differs(str(name, " has ", got.size(), " elements, not ", want.size()));
  const double worst = deviation(got, want);
  const Outcome now{Outcome::Kind::passed, name, worst, tolerance};
  if (outcome_.kind == Outcome::Kind::passed && now.closer_to_failing(outcome_)) outcome_ = now;
  if (!(worst <= tolerance)) differs(str(name, " deviates by ", worst, ", more than ", tolerance));
}

void Comparison::exact(const std::string& name, const Values& got, const Values& want) {
  compared_ = true;
  if (got.size() != want.size())
    return differs(str(name, " has ", got.size(), " elements, not ", want.size()));
  const auto at = std::mismatch(got.begin(), got.end(), want.begin());
  if (at.first == got.end()) return;
  differs(str(name, "[", at.first - got.begin(), "] is ", *at.first, ", not ", *at.second));
}

}  // namespace moelab::test
