#include "core/telemetry/metrics.h"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <filesystem>

#include "core/base/check.h"
#include "registry/error.h"

namespace moelab {
namespace {

constexpr Metric kMetrics[] = {
    {"step", "steps", "steps done, this one included"},
    {"tokens", "tokens", "trained on so far, padding not counted"},
    {"loss", "nats/token", "cross-entropy, the mean over all tokens with a target in the step"},
    {"loss/<name>", "1",
     "the balancing loss of this label, without its coefficient: the mean over layers"},
    {"objective", "nats/token", "loss plus the sum of coefficient · balancing loss over layers"},
    {"grad_norm", "1", "global norm of the gradient over distinct parameters, before clipping"},
    {"lr", "1", "learning rate of the step"},
    {"tokens_per_second", "tokens/s", "tokens of the step over its seconds"},
    {"seconds", "s", "time of the step: data, forward, backward, update"},
    {"skipped", "0 or 1", "1: loss or gradient was not finite and the step changed nothing"},
    {"memory_peak_bytes", "bytes", "most bytes in tensors on rank 0 so far"},
    {"heldout_loss", "nats/token", "cross-entropy on held-out text, when measured at this step"},
    {"heldout_bits_per_byte", "bits/byte", "the same per byte of the text"},
    {"moe/<layer>/load_cv", "1",
     "standard deviation over mean of the experts' token counts before dropping"},
    {"moe/<layer>/load_max_over_mean", "1", "largest token count over the mean"},
    {"moe/<layer>/max_vio", "1",
     "(largest count − mean) / mean: maximal violation of balance (Wang et al. 2024)"},
    {"moe/<layer>/route_entropy_token", "nats",
     "mean over tokens of the entropy of a token's scores; ln(experts) at most"},
    {"moe/<layer>/route_entropy_marginal", "nats",
     "entropy of the mean scores; ln(experts) when experts are used alike"},
    {"moe/<layer>/experts_per_token", "experts",
     "routed pairs over tokens: k, or its mean where it varies"},
    {"moe/<layer>/drop_rate", "1", "dropped pairs over routed pairs"},
    {"moe/<layer>/drop_rate/<reason>", "1", "the same by reason: capacity"},
    {"moe/<layer>/dead_experts", "experts", "experts without a token in this step"},
    {"moe/<layer>/bias_min", "1", "least choice-only bias over experts"},
    {"moe/<layer>/bias_max", "1", "largest choice-only bias over experts"},
    {"moe/<layer>/logit_max", "1", "largest router logit"},
    {"moe/<layer>/replay_differs", "1",
     "with replay: pairs that the router itself would not have chosen, over replayed pairs"},
    {"moe/<layer>/loss/<name>", "1", "the layer's balancing loss of this label"},
};

// Does `name` follow `pattern`? <layer> is a number, the other places any text up to its end.
bool follows(std::string_view name, std::string_view pattern) {
  while (!pattern.empty()) {
    if (pattern.front() != '<') {
      if (name.empty() || name.front() != pattern.front()) return false;
      name.remove_prefix(1);
      pattern.remove_prefix(1);
      continue;
    }
    const bool layer = pattern.starts_with("<layer>");
    pattern.remove_prefix(pattern.find('>') + 1);
    std::size_t length = layer ? 0 : name.size();
    while (layer && length < name.size() && name[length] >= '0' && name[length] <= '9') ++length;
    if (length == 0) return false;
    name.remove_prefix(length);
  }
  return name.empty();
}

// The step a line of metrics.jsonl belongs to, −1 if it is not a whole line.
std::int64_t step_of(std::string_view line) {
  constexpr std::string_view kStart = "{\"step\": ";
  std::int64_t step = -1;
  if (!line.starts_with(kStart) || !line.ends_with("}")) return -1;
  std::from_chars(line.data() + kStart.size(), line.data() + line.size(), step);
  return step;
}

[[noreturn]] void fail(const std::string& path) {
  throw Error(ExitCode::resources,
              str("cannot write ", path, "; check free space and permissions, then resume"));
}

}  // namespace

std::span<const Metric> metric_table() { return kMetrics; }

bool is_declared_metric(std::string_view name) {
  for (const Metric& metric : kMetrics)
    if (follows(name, metric.name)) return true;
  return false;
}

std::string metrics_markdown() {
  std::string out =
      "# Metrics\n\n"
      "`metrics.jsonl` in a run's folder holds one JSON object a step. `<layer>` is the 0-based\n"
      "block, `<name>` a balancer's label, `<reason>` a reason of dropping. Numbers read back\n"
      "exactly; values that are not finite are the strings \"NaN\", \"Infinity\", "
      "\"-Infinity\".\n\n"
      "| name | unit | meaning |\n|---|---|---|\n";
  for (const Metric& metric : kMetrics)
    out += str("| `", metric.name, "` | ", metric.unit, " | ", metric.meaning, " |\n");
  return out;
}

std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    char escaped[8];
    if (c == '"' || c == '\\') {
      (out += '\\') += c;
    } else if (code < 0x20 || code == 0x7f) {
      std::snprintf(escaped, sizeof escaped, "\\u%04x", code);
      out += escaped;
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string json_number(double value) {
  if (std::isnan(value)) return "\"NaN\"";
  if (std::isinf(value)) return value > 0 ? "\"Infinity\"" : "\"-Infinity\"";
  return exact(value);
}

MetricsRow::MetricsRow(std::int64_t step) : text_("{") { set("step", step); }

void MetricsRow::key(std::string_view name) {
  MOELAB_CHECK(is_declared_metric(name), "metric '", name, "' is not in the table of metrics");
  if (text_.size() > 1) text_ += ", ";
  text_ += json_string(name) + ": ";
}

void MetricsRow::set(std::string_view name, double value) {
  key(name);
  text_ += json_number(value);
}

void MetricsRow::set(std::string_view name, std::int64_t value) {
  key(name);
  text_ += std::to_string(value);
}

MetricsLog::MetricsLog(std::string path, std::int64_t last) : path_(std::move(path)) {
  const std::string kept_path = path_ + ".new";
  std::ifstream old(path_);
  std::ofstream kept(kept_path, std::ios::trunc);
  for (std::string line; std::getline(old, line);) {
    const std::int64_t step = step_of(line);
    if (step >= 0 && step <= last) kept << line << '\n';
  }
  kept.close();
  std::error_code failure;
  if (kept) std::filesystem::rename(kept_path, path_, failure);
  if (!kept || failure) fail(path_);
  file_.open(path_, std::ios::app);
  if (!file_) fail(path_);
}

void MetricsLog::write(const MetricsRow& row) {
  file_ << row.text() << '\n' << std::flush;
  if (!file_) fail(path_);
}

}  // namespace moelab
