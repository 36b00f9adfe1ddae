// The routing instruments of a run: [trace] records, [replay] forces. A pass is a training step, an
// evaluation or a generated text; it hooks into the forwards and is finished once they are done.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/train/index_set.h"
#include "core/train/routing_trace.h"
#include "core/train/session.h"

namespace moelab {

class RoutingPass {
 public:
  struct Difference {  // of replay, over all ranks, by block
    Index pairs = 0, others = 0;
  };
  ForwardHooks hooks();  // the pass must outlive them
  // Collective. Writes what was recorded (rank 0). After it, differences() are complete.
  void finish();
  bool replays() const { return replay_.has_value(); }
  const std::map<Index, Difference>& differences() const { return differences_; }

 private:
  friend class RoutingInstruments;
  RoutingPass(const Session& session, Phase phase, Index step)
      : session_(session), phase_(phase), step_(step) {}
  ForwardOptions force(Index m, const Tokens& tokens);
  [[noreturn]] void refuse(Index m, const std::string& what) const;
  void compare(Index m, const ModelOutput& output);
  void take(Index m, const Tokens& tokens, const ModelOutput& output);
  void sum_differences();

  const Session& session_;
  Phase phase_;
  Index step_;
  std::string folder_;              // where to record; "": not at all
  std::optional<IndexSet> layers_;  // to record
  std::optional<RoutingTrace> replay_;
  std::string replay_path_;
  std::vector<std::vector<ForcedRouting>> forced_;  // by micro-batch, by block
  RoutingTrace recorded_;                           // this rank's rows
  std::map<Index, Difference> differences_;
};

class RoutingInstruments {
 public:
  // `folder`: of the run's trace. Throws Error(data) when there is nothing to replay at
  // replay.from.
  RoutingInstruments(const Session& session, const RunConfig& config, std::string folder);
  std::unique_ptr<RoutingPass> pass(Phase phase, Index step) const;
  // All that passes said, in words: "" if nothing was replayed.
  void note(const RoutingPass& pass);
  std::string summary() const;

 private:
  const TraceFile* recorded(Phase phase, Index step) const;

  const Session& session_;
  std::string folder_;
  IndexSet steps_, layers_;
  std::string from_;
  std::vector<TraceFile> files_;
  Index replayed_ = 0, free_ = 0;  // passes
  RoutingPass::Difference total_;
};

}  // namespace moelab
