#include "core/lab/explain.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iomanip>
#include <sstream>

#include "core/lab/cost.h"

namespace moelab {
namespace {

std::string fixed(double value, int digits) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(digits) << value;
  return out.str();
}

// "1.23 M": three figures with the unit's prefix.
std::string scaled(double value, double base, std::string_view unit) {
  static constexpr std::array<std::string_view, 7> kPrefix{"", "k", "M", "G", "T", "P", "E"};
  std::size_t at = 0;
  while (value >= base * 0.9995 && at + 1 < kPrefix.size()) {
    value /= base;
    ++at;
  }
  const int digits = at == 0 ? 0 : value < 10 ? 2 : value < 100 ? 1 : 0;
  const std::string_view gap = kPrefix[at].empty() && unit.empty() ? "" : " ";
  return str(fixed(value, digits), gap, kPrefix[at], unit);
}

std::string count(Index value) {
  const std::string exactly = std::to_string(value);
  return value < 10000 ? exactly
                       : str(exactly, " (", scaled(static_cast<double>(value), 1000, ""), ")");
}

std::string bytes(Index value) { return scaled(static_cast<double>(value), 1000, "B"); }

std::string origin(const Source& source) {
  switch (source.origin) {
    case Source::Origin::fallback:
      return "default";
    case Source::Origin::base:
      return "base " + source.place();
    case Source::Origin::recipe:
      return "recipe " + source.place();
    case Source::Origin::set:
      return "--set";
  }
  return {};
}

std::string values(const Report& report) {
  std::size_t width = 0;
  const auto line = [](const ResolvedValue& value) { return str(value.path, " = ", value.value); };
  for (const ResolvedValue& value : report.values())
    width = std::max(width, std::min<std::size_t>(line(value).size(), 60));
  std::string out = "Values\n";
  for (const ResolvedValue& value : report.values()) {
    std::string text = line(value);
    text.resize(std::max(text.size(), width), ' ');
    out += str("  ", text, "  ", origin(value.source), "\n");
  }
  return out;
}

std::string indented(const std::string& text) {
  std::istringstream lines(text);
  std::string out;
  for (std::string line; std::getline(lines, line);) out += "    " + line + "\n";
  return out;
}

std::string layers(const RunConfig& config) {
  const std::vector<std::string> kinds = config.layer_kinds();
  std::string out = "Layers\n";
  for (std::size_t first = 0; first < kinds.size();) {
    std::size_t last = first;
    while (last + 1 < kinds.size() && kinds[last + 1] == kinds[first]) ++last;
    const Component<Ffn>& ffn = config.ffn.at(kinds[first]);
    const Ffn::Traits traits = ffn.traits();
    out += first == last ? str("  block ", first) : str("  blocks ", first, " to ", last);
    out += str(": [ffn.", kinds[first], "], ", ffn.name());
    if (traits.moe) out += str(", ", traits.experts, " experts");
    if (traits.free_experts > 0) out += str(" (", traits.free_experts, " of them free)");
    out += str(" of width ", traits.width, "\n", indented(ffn.formula()));
    first = last + 1;
  }
  return out;
}

std::string size(const RunConfig& config, const RunCost& cost) {
  const Index ranks = config.parallel.ranks;
  std::string out = "Size\n";
  const auto line = [&](std::string_view what, const std::string& value) {
    std::string padded(what);
    padded.resize(30, ' ');
    out += str("  ", padded, value, "\n");
  };
  line("parameters", count(cost.parameters));
  line("active for a token", count(cost.active_parameters));
  line("FLOPs per token, forward", scaled(cost.forward_flops, 1000, ""));
  line("FLOPs per token, training", scaled(cost.training_flops, 1000, ""));
  const std::string_view rank = ranks > 1 ? " on each rank" : "";
  line(str("weights", rank), bytes(cost.weight_bytes));
  line(str("gradients", rank), bytes(cost.gradient_bytes));
  line(str("optimizer state", rank), bytes(cost.optimizer_bytes));
  line(str("saved activations", rank), str("about ", bytes(cost.activation_bytes)));
  line("a checkpoint", bytes(cost.checkpoint_bytes));
  return out;
}

// How often the training text is shown, or why that is not known.
std::string epochs(const RunConfig& config) {
  try {
    const std::shared_ptr<const Tokenizer> tokenizer = config.data.tokenizer.make({});
    const auto dataset = config.data.dataset.make(
        {config.data.sequence_length, config.train.batch, config.data_seed(), tokenizer});
    const Index rows = config.total_steps() * config.train.batch, epoch = dataset->epoch_rows();
    if (epoch == 0) return "unknown: the dataset has none";
    return str(fixed(static_cast<double>(rows) / static_cast<double>(epoch), 2), " of ",
               count(epoch), " rows, ", count(dataset->tokens(Split::train)), " tokens");
  } catch (const Error& error) {
    return str("unknown: data not found (", error.what(), ")");
  }
}

std::string run(const RunConfig& config, const RunCost& cost) {
  const Index tokens = config.total_steps() * config.train.batch * config.data.sequence_length;
  return str("Run\n  steps   ", config.total_steps(), "\n  tokens  ", count(tokens), "\n  epochs  ",
             epochs(config), "\n  FLOPs   ",
             scaled(cost.training_flops * static_cast<double>(tokens), 1000, ""), "\n");
}

std::string ranks(const RunConfig& config) {
  const ParallelSection& p = config.parallel;
  return str("Ranks\n  ", p.ranks, " of world ", p.world.name(), ": dp ", p.ranks, ", ep ", p.ep,
             ", edp ", p.ranks / p.ep, "\n");
}

}  // namespace

std::string explain_recipe(const std::string& path, std::span<const std::string> sets) {
  Report report;
  const RunConfig config = load_run_config(path, sets, report);
  const RunCost cost = run_cost(config);
  std::string out = str(path, "\n\n", values(report), "\n", layers(config), "\n",
                        size(config, cost), "\n", ranks(config), "\n", run(config, cost));
  const std::string warnings = report.lines();
  return warnings.empty() ? out : str(out, "\nWarnings\n", warnings);
}

}  // namespace moelab
