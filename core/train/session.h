// What every verb that runs a model sets up: the data, the ranks, the model of a recipe.
#pragma once
#include <functional>
#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

#include "core/checkpoint/store.h"
#include "core/model/transformer.h"
#include "core/train/run_config.h"

namespace moelab {

struct Corpus {  // shared by the ranks of a process; only read
  std::shared_ptr<const Tokenizer> tokenizer;
  std::shared_ptr<const Dataset> dataset;
};
Corpus make_corpus(const RunConfig& config);

// One rank's part of a run: the model built and initialised. Construction is collective.
struct Session {
  Session(const RunConfig& config, const Corpus& corpus, Rank& rank);
  Session(const Session&) = delete;  // the model refers to `ranks`
  Session& operator=(const Session&) = delete;
  std::shared_ptr<Group> everyone;
  RankContext ranks;
  std::unique_ptr<Transformer> model;
  std::vector<Parameter*> parameters;
  bool leads() const { return ranks.rank == 0; }  // writes files and talks
};

// Runs `body` on every rank of the recipe's world; each has max(1, threads / ranks) threads.
void run_ranks(const RunConfig& config, int threads, const std::function<void(Rank&)>& body);

DType run_dtype(const RunConfig& config);
bool has_experts(const RunConfig& config);  // some layer is a mixture of experts

// The parts of a checkpoint that belong to the model: weights, and state of its components.
Shares weight_shares(const Session& session);
Shares state_shares(const Session& session);
void load_weights(const Session& session, const Checkpoint& checkpoint);
void load_states(const Session& session, const Checkpoint& checkpoint);
// State for a run that starts from `weights`, the model file of a checkpoint: what components of
// both recipes keep under the same name. Nothing where there is no checkpoint around the file.
// Throws Error(checkpoint) if shapes or dtypes differ.
void adopt_states(const Session& session, const std::string& weights, std::ostream& log);

}  // namespace moelab
