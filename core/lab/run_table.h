// What an ablation comes to: finished runs read from their folders, seeds of one recipe taken
// together, one row a recipe.
#pragma once
#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

namespace moelab {

struct Spread {  // of one number over the runs of a row
  double mean = 0;
  double deviation = 0;  // of the sample; 0 for a single run
};

struct RunRow {
  std::string name;               // what the runs' folders have in common
  std::vector<std::string> runs;  // folders, sorted
  std::int64_t steps = 0;
  // NaN where a run has no such number (a model without MoE layers, nothing held out).
  Spread heldout_loss, heldout_bits_per_byte;
  // Means over MoE layers and the last steps.
  Spread max_vio, drop_rate, experts_per_token, dead_experts;
  Spread tokens_per_second;  // the median of the last steps
};

// Every folder at or below `folder` that holds a finished run (summary.json), in rows: runs whose
// recipes differ in nothing but run.seed and run.folder share one. Rows come in order of held-out
// loss. `last` ≥ 1: the steps that means are taken over. What is no finished run is named in
// `warnings`; a finished one that cannot be read, or none at all, is Error(data).
std::vector<RunRow> run_table(const std::string& folder, std::int64_t last, std::ostream& warnings);

std::string text_table(const std::vector<RunRow>& rows);      // for a terminal
std::string markdown_table(const std::vector<RunRow>& rows);  // the same
std::string json_lines(const std::vector<RunRow>& rows);      // one object a row, all numbers

}  // namespace moelab
