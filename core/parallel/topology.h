// Which rank does what: pure arithmetic. Two grids over the same ranks, last axis fastest: dense
// (pp, dp, tp) and expert (pp, edp, ep, etp). dp = ranks / (tp·pp) and edp = ranks / (ep·etp·pp)
// follow. Only dp and ep exceed 1 today; what is not built is refused by name in the recipe's
// checks.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace moelab {

enum class Axis : std::uint8_t { pp, dp, tp, edp, ep, etp };

struct Degrees {
  std::int64_t ranks = 1, tp = 1, pp = 1, ep = 1, etp = 1;
};

class Topology {
 public:
  Topology() = default;
  explicit Topology(Degrees degrees);  // REQUIRES: problem(degrees).empty()
  // "" or why the degrees do not fit, with the remedy.
  static std::string problem(const Degrees& degrees);
  int size(Axis axis) const;
  int coordinate(Axis axis, int rank) const;
  // The ranks that differ from `rank` only along `axis`, by coordinate.
  std::vector<int> peers(Axis axis, int rank) const;
  int ranks() const { return static_cast<int>(degrees_.ranks); }

 private:
  Degrees degrees_;
};

}  // namespace moelab
