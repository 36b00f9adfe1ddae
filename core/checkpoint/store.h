// Checkpoints of a run. One is a folder step-<N>:
//   model.safetensors      weights under global names, one tensor an expert
//   optimizer.safetensors  <weight name>.<state>, e.g. "….up_proj.weight.exp_avg"
//   state.safetensors      state of the MoE layers' components
//   meta.json              CheckpointMeta and the XXH3-128 of every file and of itself
// Names and shapes do not depend on the layout, so that any layout reads any other's. A checkpoint
// is written under another name, synced and renamed: a folder called step-<N> is whole, or was
// damaged later, which its hashes tell.
#pragma once
#include <iosfwd>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/autograd/parameter.h"
#include "core/comm/world.h"

namespace moelab {

struct CheckpointMeta {
  Index step = 0;      // steps done
  Index tokens = 0;    // trained on so far
  Index updates = 0;   // steps that were not skipped
  double loss = 0;     // of the last step
  double seconds = 0;  // of training so far
  std::uint64_t model_seed = 0, data_seed = 0;
  std::uint64_t data_fingerprint = 0;
  std::string recipe;   // resolved, as TOML
  std::string version;  // of the program that wrote it
};

// What one rank brings to a file of a checkpoint.
struct Shares {
  std::vector<Piece> whole;    // the same on every rank
  std::vector<Piece> sharded;  // experts: every rank of the expert group has equally many, of equal
                               // shapes in order, under names of their own
};

struct Checkpoint {
  std::string path;
  CheckpointMeta meta;
  std::string file(const char* name) const { return path + "/" + name; }
};
constexpr const char* kModelFile = "model.safetensors";
constexpr const char* kOptimizerFile = "optimizer.safetensors";
constexpr const char* kStateFile = "state.safetensors";
constexpr const char* kMetaFile = "meta.json";

// Reads and verifies every hash. Throws Error(checkpoint) naming the damaged or missing file.
Checkpoint open_checkpoint(const std::string& path);
// Fills pieces from a file by their names, whatever the layout that wrote it.
void load_pieces(const std::string& file, const std::vector<Piece>& pieces);

class CheckpointStore {
 public:
  // `keep`: how many checkpoints stay, the newest first.
  CheckpointStore(std::string folder, Index keep);
  // The newest that is whole; a damaged one is named in `warnings` and the one before it is tried.
  std::optional<Checkpoint> newest_whole(std::ostream& warnings) const;
  // Collective over `everyone` and over every expert group (null: experts are not sharded); rank 0
  // of `everyone` writes. On Error(resources) the checkpoints before are untouched.
  // Removes the checkpoints beyond `step`: a run that goes on from there leaves their future.
  void discard_after(Index step) const;
  void save(const CheckpointMeta& meta, const std::map<std::string, Shares>& files,
            const Backend& backend, Group& everyone, Group* expert_group) const;

 private:
  std::vector<Index> steps() const;  // of the folders there, newest first
  std::string path(Index step) const;
  void commit(const std::string& written, Index step) const;
  void prune() const;
  std::string folder_;
  Index keep_;
};

}  // namespace moelab
