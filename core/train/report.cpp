#include "core/train/report.h"

#include <cstdio>

#include "core/telemetry/metrics.h"
#include "registry/text.h"

namespace moelab {
namespace {

std::string rounded(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, printable(value));
  return text;
}

}  // namespace

std::string final_report(const TrainOutcome& outcome, const std::string& folder) {
  const CheckpointMeta& state = outcome.state;
  std::string out = str("trained     ", state.step, " steps, ", state.tokens, " tokens in ",
                        duration_text(state.seconds));
  if (state.seconds > 0)
    out += str(", ", rounded(static_cast<double>(state.tokens) / state.seconds, 0), " tokens/s");
  out += outcome.out_of_time ? " (stopped by train.max_seconds)\n" : "\n";
  out += str("train loss  ", rounded(state.loss, 4), " nats/token (last step)\n");
  if (outcome.heldout.complete)
    out += str("held out    ", rounded(outcome.heldout.loss, 4), " nats/token, ",
               rounded(outcome.heldout.bits_per_byte, 4), " bits/byte over ",
               outcome.heldout.tokens, " tokens\n");
  if (!outcome.replay.empty()) out += outcome.replay + "\n";
  if (!outcome.heldout.loads.empty())
    out +=
        str("\nexpert load on held-out text (one character an expert; ▄ the mean, █ twice the "
            "mean or more, · none)\n",
            load_picture(outcome.heldout.loads));
  if (!outcome.sample.empty()) out += str("\nsample\n", outcome.sample, "\n");
  return out + str("\nrun folder  ", folder, "\n");
}

std::string summary_json(const TrainOutcome& outcome) {
  const HeldoutResult& heldout = outcome.heldout;
  const auto measured = [&](double value) {
    return heldout.complete ? json_number(value) : std::string("null");
  };
  return str("{\n  \"steps\": ", outcome.state.step, ",\n  \"tokens\": ", outcome.state.tokens,
             ",\n  \"seconds\": ", json_number(outcome.state.seconds),
             ",\n  \"train_loss\": ", json_number(outcome.state.loss),
             ",\n  \"heldout_loss\": ", measured(heldout.loss),
             ",\n  \"heldout_bits_per_byte\": ", measured(heldout.bits_per_byte), "\n}\n");
}

}  // namespace moelab
