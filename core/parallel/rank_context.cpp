#include "core/parallel/rank_context.h"

namespace moelab {

RankContext make_rank_context(Rank& rank, const Topology& topology,
                              std::shared_ptr<Backend> backend, bool with_expert_groups) {
  MOELAB_CHECK(topology.ranks() == rank.size(), "a topology of ", topology.ranks(),
               " ranks in a world of ", rank.size());
  RankContext out{std::move(backend), topology, rank.rank(), nullptr, nullptr, nullptr};
  out.dp = rank.group(topology.peers(Axis::dp, rank.rank()), "dp");
  if (with_expert_groups) {
    out.ep = rank.group(topology.peers(Axis::ep, rank.rank()), "ep");
    out.edp = rank.group(topology.peers(Axis::edp, rank.rank()), "edp");
  }
  return out;
}

}  // namespace moelab
