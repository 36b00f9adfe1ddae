#include "core/parallel/topology.h"

#include <array>

#include "core/base/check.h"
#include "registry/text.h"

namespace moelab {
namespace {

// Sizes and strides of the two grids: rank = Σ coordinate · stride over the axes of one grid.
struct Extent {
  std::int64_t size = 1, stride = 1;
};

Extent extent(const Degrees& d, Axis axis) {
  const std::int64_t stage = d.ranks / d.pp;  // ranks of a pipeline stage
  switch (axis) {
    case Axis::pp:
      return {d.pp, stage};
    case Axis::dp:
      return {stage / d.tp, d.tp};
    case Axis::tp:
      return {d.tp, 1};
    case Axis::edp:
      return {stage / (d.ep * d.etp), d.ep * d.etp};
    case Axis::ep:
      return {d.ep, d.etp};
    case Axis::etp:
      return {d.etp, 1};
  }
  return {};
}

}  // namespace

std::string Topology::problem(const Degrees& d) {
  struct Named {
    const char* name;
    std::int64_t value;
  };
  for (const auto& [name, value] : std::array<Named, 5>{
           {{"ranks", d.ranks}, {"tp", d.tp}, {"pp", d.pp}, {"ep", d.ep}, {"etp", d.etp}}})
    if (value < 1) return str(name, " = ", value, " must be at least 1");
  if (d.ranks % (d.tp * d.pp) != 0)
    return str("tp · pp = ", d.tp * d.pp, " does not divide the ", d.ranks,
               " ranks; make ranks a multiple of it");
  if (d.ranks % (d.ep * d.etp * d.pp) != 0)
    return str("ep · etp · pp = ", d.ep * d.etp * d.pp, " does not divide the ", d.ranks,
               " ranks; make ranks a multiple of it or lower ep");
  return {};
}

Topology::Topology(Degrees degrees) : degrees_(degrees) {
  const std::string problem_found = problem(degrees);
  MOELAB_CHECK(problem_found.empty(), problem_found);
}

int Topology::size(Axis axis) const { return static_cast<int>(extent(degrees_, axis).size); }

int Topology::coordinate(Axis axis, int rank) const {
  MOELAB_CHECK(rank >= 0 && rank < degrees_.ranks, "rank ", rank, " of ", degrees_.ranks);
  const Extent along = extent(degrees_, axis);
  return static_cast<int>(rank / along.stride % along.size);
}

std::vector<int> Topology::peers(Axis axis, int rank) const {
  const Extent along = extent(degrees_, axis);
  const std::int64_t first = rank - coordinate(axis, rank) * along.stride;
  std::vector<int> out;
  for (std::int64_t c = 0; c < along.size; ++c)
    out.push_back(static_cast<int>(first + c * along.stride));
  return out;
}

}  // namespace moelab
