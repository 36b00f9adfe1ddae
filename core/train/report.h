// What a run says at its end: the text for people (report.txt) and the numbers for scripts
// (summary.json).
#pragma once
#include <string>

#include "core/train/train_loop.h"

namespace moelab {

std::string final_report(const TrainOutcome& outcome, const std::string& folder);
// steps tokens seconds train_loss heldout_loss heldout_bits_per_byte; null where nothing was
// measured.
std::string summary_json(const TrainOutcome& outcome);

}  // namespace moelab
