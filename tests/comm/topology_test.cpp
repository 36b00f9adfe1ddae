#include "core/parallel/topology.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

using namespace moelab;

TEST_CASE("sixteen ranks with tensor-parallel pairs: the expert groups by hand") {
  const Topology t({.ranks = 16, .tp = 2, .ep = 4, .etp = 2});
  CHECK(t.peers(Axis::ep, 0) == std::vector<int>{0, 2, 4, 6});
  CHECK(t.peers(Axis::edp, 0) == std::vector<int>{0, 8});
  CHECK(t.peers(Axis::tp, 3) == std::vector<int>{2, 3});
  CHECK(t.peers(Axis::dp, 3) == std::vector<int>{1, 3, 5, 7, 9, 11, 13, 15});
}

TEST_CASE("two copies of two experts' halves: ep inside, copies outside") {
  const Topology t({.ranks = 4, .ep = 2});
  CHECK(t.peers(Axis::dp, 2) == std::vector<int>{0, 1, 2, 3});
  CHECK(t.peers(Axis::ep, 2) == std::vector<int>{2, 3});
  CHECK(t.peers(Axis::edp, 2) == std::vector<int>{0, 2});
  CHECK(t.coordinate(Axis::ep, 3) == 1);
  CHECK(t.coordinate(Axis::edp, 3) == 1);
}

TEST_CASE("the groups of an axis part the ranks, and coordinates name every rank once") {
  constexpr Axis kAxes[] = {Axis::pp, Axis::dp, Axis::tp, Axis::edp, Axis::ep, Axis::etp};
  int layouts = 0;
  for (std::int64_t ranks = 1; ranks <= 16; ++ranks)
    for (std::int64_t tp = 1; tp <= ranks; ++tp)
      for (std::int64_t pp = 1; pp <= ranks; ++pp)
        for (std::int64_t ep = 1; ep <= ranks; ++ep) {
          const Degrees degrees{.ranks = ranks, .tp = tp, .pp = pp, .ep = ep, .etp = tp};
          if (!Topology::problem(degrees).empty()) continue;
          ++layouts;
          const Topology t(degrees);
          CHECK(t.size(Axis::pp) * t.size(Axis::dp) * t.size(Axis::tp) == ranks);
          CHECK(t.size(Axis::pp) * t.size(Axis::edp) * t.size(Axis::ep) * t.size(Axis::etp) ==
                ranks);
          for (const Axis axis : kAxes) {
            std::vector<int> seen;
            for (int r = 0; r < ranks; ++r) {
              const auto peers = t.peers(axis, r);
              const auto at = static_cast<std::size_t>(t.coordinate(axis, r));
              REQUIRE(peers.size() == static_cast<std::size_t>(t.size(axis)));
              REQUIRE(peers.at(at) == r);
              REQUIRE(std::is_sorted(peers.begin(), peers.end()));
              if (at == 0) seen.insert(seen.end(), peers.begin(), peers.end());
            }
            std::sort(seen.begin(), seen.end());
            REQUIRE(seen.size() == static_cast<std::size_t>(ranks));
            for (int r = 0; r < ranks; ++r) REQUIRE(seen[static_cast<std::size_t>(r)] == r);
          }
        }
  CHECK(layouts > 100);
}

TEST_CASE("degrees that do not fit are named with the remedy") {
  CHECK(Topology::problem({.ranks = 4, .ep = 2}).empty());
  CHECK(Topology::problem({.ranks = 4, .ep = 3}) ==
        "ep · etp · pp = 3 does not divide the 4 ranks; make ranks a multiple of it or lower ep");
  CHECK(Topology::problem({.ranks = 6, .tp = 4}) ==
        "tp · pp = 4 does not divide the 6 ranks; make ranks a multiple of it");
  CHECK(Topology::problem({.ranks = 0}) == "ranks = 0 must be at least 1");
}
