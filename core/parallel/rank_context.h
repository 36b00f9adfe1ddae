// Everything a rank of a run holds: its backend, its place in the topology, its groups.
#pragma once
#include <memory>

#include "core/backend/backend.h"
#include "core/comm/world.h"
#include "core/parallel/topology.h"

namespace moelab {

struct RankContext {
  std::shared_ptr<Backend> backend;
  Topology topology;
  int rank = 0;
  std::shared_ptr<Group> dp;   // ranks with other rows of the batch (dense parameters' replicas)
  std::shared_ptr<Group> ep;   // ranks with other experts; null when the recipe has no MoE layer
  std::shared_ptr<Group> edp;  // ranks with copies of this rank's experts; null likewise
};

// Collective over all ranks.
RankContext make_rank_context(Rank& rank, const Topology& topology,
                              std::shared_ptr<Backend> backend, bool with_expert_groups);

}  // namespace moelab
