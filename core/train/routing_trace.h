// Routing on disk: what trace writes and replay reads. A file holds one pass: a training step, an
// evaluation, a generated text; its micro-batches hold the rows of all ranks in global order, so
// that any layout can read what another wrote. T tokens of a micro-batch, P pair slots, E experts.
//
// The file is a safetensors file, <phase>-<step>.safetensors, with metadata format, phase, step and
// micro_batches, and for every micro-batch m and traced block l:
//   m<m>.token i32 [rows, length]     m<m>.valid u8 [rows, length]
//   m<m>.layer<l>.experts i64 [1]     m<m>.layer<l>.offset i64 [T + 1]: slots of each token
//   m<m>.layer<l>.expert i32 [P] in choice order, −1 absent
//   m<m>.layer<l>.weight [P] as it reached the expert     m<m>.layer<l>.fate u8 [P]: PairFate
#pragma once
#include <string>
#include <vector>

#include "core/moe/router.h"

namespace moelab {

struct TracedLayer {
  Index layer = 0, experts = 0;  // block
  std::vector<Index> offset_T1;
  std::vector<std::int32_t> expert_P;
  std::vector<double> weight_P;
  std::vector<PairFate> fate_P;
};

struct TracedBatch {
  Index rows = 0, length = 0;
  std::vector<std::int32_t> token_T;  // vocabulary ids
  std::vector<std::uint8_t> valid_T;
  std::vector<TracedLayer> layers;  // lowest block first
};

struct RoutingTrace {
  Phase phase = Phase::train;
  Index step = 0;            // as in metrics.jsonl: the first is 1
  DType dtype = DType::f32;  // of weights in the file
  std::vector<TracedBatch> batches;
};

std::string_view phase_name(Phase phase);  // "train", "eval", "generate"

struct TraceFile {
  Phase phase = Phase::train;
  Index step = 0;
  std::string path;
};
// Creates the folder; a reader sees the old file or the whole new one. Throws Error(resources).
void write_trace(const std::string& folder, const RoutingTrace& trace);
// Throws Error(data) naming file, place, value and rule: shapes that do not fit each other, experts
// out of range, an expert twice for a token, pairs of padding.
RoutingTrace read_trace(const std::string& path);
// The files of a run's folder, its trace folder, or the file itself, by phase and step. Throws
// Error(data) when there is none.
std::vector<TraceFile> find_traces(const std::string& path);
// Removes from a trace folder what a run that goes on from `step` will write again.
void discard_traces_after(const std::string& folder, Index step);

}  // namespace moelab
