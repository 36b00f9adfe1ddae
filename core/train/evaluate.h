// Measuring a model on held-out text, and using what a run saved: `moelab eval`, `moelab generate`.
#pragma once
#include <functional>
#include <iosfwd>
#include <span>
#include <string>
#include <vector>

#include "core/model/generate.h"
#include "core/telemetry/progress.h"
#include "core/train/session.h"
#include "core/train/step.h"

namespace moelab {

struct HeldoutResult {
  double loss = 0;           // nats a token
  double bits_per_byte = 0;  // of the text behind the tokens
  Index tokens = 0, rows = 0;
  std::vector<LayerLoad> loads;  // of the MoE layers
  bool complete = false;         // false: given up, the rest means nothing
};

// Every token of the held-out text after the first is scored once, in rows; `max_rows` > 0 stops
// early; so does `give_up`, asked between batches, which must answer alike on every rank.
// `playback` may force routing and noise. The layout changes the result only by rounding.
// Collective; the same on every rank.
HeldoutResult evaluate_heldout(const Session& session, const RunConfig& config,
                               const Dataset& dataset, Index max_rows,
                               const std::function<bool()>& give_up = {},
                               const Playback& playback = {}, const ForwardHooks& hooks = {});

// A saved model with its recipe: `path` is a run's folder (its newest whole checkpoint is taken) or
// one checkpoint's folder. `sets` change the recipe ("eval.batch=8"). Runs on one rank whatever the
// layout that trained it. Throws Error(checkpoint).
struct SavedModel {
  Checkpoint checkpoint;
  RunConfig config;
  std::string trace_folder;  // where [trace] records; "": nowhere
};
SavedModel open_saved(const std::string& path, std::span<const std::string> sets,
                      std::ostream& warnings);

// Both follow the recipe's [trace] and [replay], at the checkpoint's step; `log` gets what replay
// found.
HeldoutResult evaluate_saved(const SavedModel& saved, int threads, Index max_rows = 0,
                             std::ostream* log = nullptr);
// The text that follows `prompt`; `each` sees it piece by piece.
std::string generate_saved(const SavedModel& saved, const std::string& prompt,
                           const Sampling& sampling, int threads,
                           const std::function<void(const std::string&)>& each = {},
                           std::ostream* log = nullptr);

Sampling sampling_of(const SampleSection& section);

}  // namespace moelab
