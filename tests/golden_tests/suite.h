// A suite's runner and what it says of a case. A runner is one file whose last line registers it:
//   const RegisterSuite registered{"megatron_topk", run_case};
// It builds the component that the case's params describe from recipe text, runs it, and compares.
// A runner asks for every param and tensor of its case or ignores it by name: what nobody asked for
// fails the case. Exceptions fail it too.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/golden.h"

namespace moelab::test {

using Values = std::vector<double>;

struct Outcome {
  // differs: compared and not equal; failed: could not be run, or is wrong whatever the numbers.
  enum class Kind : std::uint8_t { passed, differs, failed, deliberate, not_yet };
  Kind kind = Kind::passed;
  std::string text;      // why; for passed, where the worst deviation is
  double worst = 0;      // the deviation that takes most of its tolerance
  double tolerance = 0;  // that tolerance; 0: everything was exact
  static Outcome failed(std::string why) { return {Kind::failed, std::move(why)}; }
  static Outcome not_yet(std::string reason) { return {Kind::not_yet, std::move(reason)}; }
  bool closer_to_failing(const Outcome& other) const;
};

// Collects comparisons. Rule: |a − b| ≤ tolerance · max|b| over a tensor, all finite.
class Comparison {
 public:
  void same(const std::string& name, const Values& got, const Values& want, double tolerance);
  void same(const std::string& name, const Values& got, const GoldenTensor& want,
            double tolerance) {
    same(name, got, want.values, tolerance);
  }
  void same(const std::string& name, double got, double want, double tolerance) {
    same(name, Values{got}, Values{want}, tolerance);
  }
  // Ids, maps, counts, masks: equal, element by element.
  void exact(const std::string& name, const Values& got, const Values& want);
  void exact(const std::string& name, const Values& got, const GoldenTensor& want) {
    exact(name, got, want.values);
  }
  template <class T>
  void exact(const std::string& name, const std::vector<T>& got, const Values& want) {
    exact(name, Values(got.begin(), got.end()), want);
  }
  template <class T>
  void exact(const std::string& name, const std::vector<T>& got, const GoldenTensor& want) {
    exact(name, got, want.values);
  }
  void exact(const std::string& name, double got, double want) {
    exact(name, Values{got}, Values{want});
  }
  Outcome outcome() const;  // failed if nothing was compared

 private:
  void differs(const std::string& text);
  bool compared_ = false;
  Outcome outcome_;
};

using RunCase = Outcome (*)(const GoldenCase& c);

// The registered runner of a suite; null if there is none.
RunCase runner_of(const std::string& suite);

struct RegisterSuite {
  RegisterSuite(const std::string& suite, RunCase run);
};

// Cases that we treat differently on purpose, all of them in deliberate.cpp. A listed case that
// differs counts as deliberate; one that fails or agrees counts as what it is.
struct Deliberate {
  std::string_view suite;
  std::string_view cases;  // a trailing * stands for any end
  std::string_view reason;
  bool (*where)(const GoldenCase& c) = nullptr;  // among these cases; null: all
};
const std::vector<Deliberate>& deliberate_differences();

}  // namespace moelab::test
