#include "core/lab/run_table.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <ostream>

#include "core/lab/samples.h"
#include "core/telemetry/metrics.h"
#include "registry/error.h"
#include "registry/recipe.h"
#include "registry/text.h"

namespace moelab {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

[[noreturn]] void unreadable(const std::string& path, const std::string& why) {
  throw Error(ExitCode::data,
              str(path, " cannot be read: ", why,
                  "; move the run's folder away to leave it out, or resume the run"));
}

// What one run measured.
struct Run {
  std::string folder, recipe;  // the resolved recipe without what may differ in a row
  std::int64_t steps = 0;
  double heldout_loss = kNone, heldout_bits_per_byte = kNone;
  double max_vio = kNone, drop_rate = kNone, experts_per_token = kNone, dead_experts = kNone;
  double tokens_per_second = kNone;
};

// Everything that a run measured: in JSON under `key`, in tables under `heading`.
struct Column {
  const char *key, *heading;
  double Run::*of_run;
  Spread RunRow::*of_row;
  int digits;
  double factor;
  bool with_deviation;
};
constexpr Column kColumns[] = {
    {"heldout_loss", "held-out loss", &Run::heldout_loss, &RunRow::heldout_loss, 4, 1, true},
    {"heldout_bits_per_byte", "bits/byte", &Run::heldout_bits_per_byte,
     &RunRow::heldout_bits_per_byte, 4, 1, false},
    {"max_vio", "MaxVio", &Run::max_vio, &RunRow::max_vio, 2, 1, true},
    {"drop_rate", "dropped %", &Run::drop_rate, &RunRow::drop_rate, 2, 100, true},
    {"experts_per_token", "experts/token", &Run::experts_per_token, &RunRow::experts_per_token, 2,
     1, false},
    {"dead_experts", "dead experts", &Run::dead_experts, &RunRow::dead_experts, 2, 1, false},
    {"tokens_per_second", "tokens/s", &Run::tokens_per_second, &RunRow::tokens_per_second, 0, 1,
     false},
};

double number(const Json& value) { return value.is_number() ? value.get<double>() : kNone; }

Json parsed(const std::string& text, const std::string& path) {
  Json value = Json::parse(text, nullptr, false);
  if (!value.is_object()) unreadable(path, "it is not whole");
  return value;
}

std::string text_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::string text(std::istreambuf_iterator<char>(in), {});
  if (!in) unreadable(path, "it is missing or no file");
  return text;
}

// The last `count` lines of metrics.jsonl.
std::vector<Json> last_steps(const std::string& path, std::int64_t count) {
  std::ifstream in(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(std::move(line));
  if (lines.empty()) unreadable(path, "it is missing or holds no step");
  const auto kept = std::min(lines.size(), static_cast<std::size_t>(count));
  std::vector<Json> steps;
  for (std::size_t i = lines.size() - kept; i < lines.size(); ++i)
    steps.push_back(parsed(lines[i], str(path, ":", i + 1)));
  return steps;
}

// The mean of moe/<layer>/`name` over layers and steps.
double layer_mean(const std::vector<Json>& steps, const std::string& name) {
  double sum = 0;
  std::int64_t count = 0;
  for (const Json& step : steps)
    for (const auto& [key, value] : step.items())
      if (key.starts_with("moe/") && key.find('/', 4) == key.size() - name.size() - 1 &&
          key.ends_with(name)) {
        sum += number(value);
        ++count;
      }
  return count == 0 ? kNone : sum / static_cast<double>(count);
}

std::string comparable_recipe(const std::string& path) {
  Report report;
  Node tree = load_recipe(path, {}, report);
  if (report.has_errors()) unreadable(path, report.lines());
  if (Node::Table* table = tree.table())
    if (const auto run = table->find("run"); run != table->end())
      if (Node::Table* keys = run->second.table()) {
        keys->erase("seed");
        keys->erase("folder");
      }
  return tree.text();
}

Run read_run(const std::string& folder, std::int64_t last) {
  Run run;
  run.folder = folder;
  run.recipe = comparable_recipe(folder + "/recipe.toml");
  const std::string summary_path = folder + "/summary.json";
  const Json summary = parsed(text_of(summary_path), summary_path);
  const auto measured = [&](const char* key) { return number(summary.value(key, Json())); };
  const Json count = summary.value("steps", Json());
  if (!count.is_number_integer()) unreadable(summary_path, "it names no number of steps");
  run.steps = count.get<std::int64_t>();
  run.heldout_loss = measured("heldout_loss");
  run.heldout_bits_per_byte = measured("heldout_bits_per_byte");
  const std::vector<Json> steps = last_steps(folder + "/metrics.jsonl", last);
  run.max_vio = layer_mean(steps, "max_vio");
  run.drop_rate = layer_mean(steps, "drop_rate");
  run.experts_per_token = layer_mean(steps, "experts_per_token");
  run.dead_experts = layer_mean(steps, "dead_experts");
  std::vector<double> speeds;
  for (const Json& step : steps)
    if (const double speed = number(step.value("tokens_per_second", Json())); std::isfinite(speed))
      speeds.push_back(speed);
  if (!speeds.empty()) run.tokens_per_second = median(speeds);
  return run;
}

Spread spread(const std::vector<Run>& runs, double Run::*member) {
  Spread of;
  const auto n = static_cast<double>(runs.size());
  for (const Run& run : runs) of.mean += run.*member / n;
  double squares = 0;
  for (const Run& run : runs) squares += (run.*member - of.mean) * (run.*member - of.mean);
  if (runs.size() > 1) of.deviation = std::sqrt(squares / (n - 1));
  return of;
}

// What the names have in common, without a seed's beginning: "sinkhorn-1", "sinkhorn-2" →
// "sinkhorn".
std::string common_name(const std::vector<std::string>& names) {
  if (names.size() == 1) return names[0];
  std::string common = names[0];
  for (const std::string& name : names)
    common.resize(static_cast<std::size_t>(
        std::mismatch(common.begin(), common.end(), name.begin(), name.end()).first -
        common.begin()));
  while (!common.empty() && common.back() >= '0' && common.back() <= '9') common.pop_back();
  const std::size_t end = common.find_last_not_of("-_./");
  return end == std::string::npos ? names[0] : common.substr(0, end + 1);
}

RunRow row_of(const std::vector<Run>& runs, const std::string& root) {
  RunRow row;
  std::vector<std::string> names;
  for (const Run& run : runs) {
    row.runs.push_back(run.folder);
    const std::string name = fs::path(run.folder).lexically_relative(root).string();
    names.push_back(name == "." ? fs::path(run.folder).filename().string() : name);
  }
  row.name = common_name(names);
  row.steps = runs[0].steps;
  for (const Column& column : kColumns) row.*column.of_row = spread(runs, column.of_run);
  return row;
}

// The folders of runs at or below `root`, sorted. A link (runs/latest) is not followed.
std::vector<std::string> run_folders(const std::string& root, std::ostream& warnings) {
  std::error_code failure;
  std::vector<std::string> found;
  const auto visit = [&](const fs::path& folder) {
    if (fs::exists(folder / "summary.json", failure)) {
      found.push_back(folder.string());
    } else if (fs::exists(folder / "recipe.toml", failure)) {
      warnings << "warning: " << folder.string()
               << " has no summary.json: that run is not finished and left out\n";
    }
  };
  visit(root);
  for (fs::recursive_directory_iterator at(root, failure), end; !failure && at != end;
       at.increment(failure)) {
    if (at->is_directory(failure) && !at->is_symlink(failure)) visit(at->path());
  }
  if (failure)
    throw Error(ExitCode::data,
                str("'", root, "' cannot be searched for runs: ", failure.message()));
  std::ranges::sort(found);
  return found;
}

std::string fixed(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

std::vector<std::vector<std::string>> cells(const std::vector<RunRow>& rows) {
  std::vector<std::vector<std::string>> table{{"recipe", "runs", "steps"}};
  for (const Column& column : kColumns) table[0].emplace_back(column.heading);
  for (const RunRow& row : rows) {
    std::vector<std::string> line{row.name, std::to_string(row.runs.size()),
                                  std::to_string(row.steps)};
    for (const Column& column : kColumns) {
      const Spread& of = row.*column.of_row;
      std::string cell =
          std::isfinite(of.mean) ? fixed(of.mean * column.factor, column.digits) : "-";
      if (column.with_deviation && row.runs.size() > 1 && std::isfinite(of.mean))
        cell += " ± " + fixed(of.deviation * column.factor, column.digits);
      line.push_back(std::move(cell));
    }
    table.push_back(std::move(line));
  }
  return table;
}

std::size_t characters(const std::string& utf8) {
  return static_cast<std::size_t>(
      std::ranges::count_if(utf8, [](char c) { return (c & 0xC0) != 0x80; }));
}

}  // namespace

std::vector<RunRow> run_table(const std::string& folder, std::int64_t last,
                              std::ostream& warnings) {
  std::map<std::string, std::vector<Run>> by_recipe;
  for (const std::string& path : run_folders(folder, warnings)) {
    Run run = read_run(path, last);
    by_recipe[str(run.steps, "\n", run.recipe)].push_back(std::move(run));
  }
  if (by_recipe.empty())
    throw Error(ExitCode::data, str("'", folder,
                                    "' holds no finished run; name a run's folder, or "
                                    "one with several of them, e.g. runs"));
  std::vector<RunRow> rows;
  for (const auto& [recipe, runs] : by_recipe) rows.push_back(row_of(runs, folder));
  std::ranges::stable_sort(rows, [](const RunRow& a, const RunRow& b) {
    const double x = a.heldout_loss.mean, y = b.heldout_loss.mean;
    return std::isnan(y) ? !std::isnan(x) : x < y;
  });
  return rows;
}

std::string text_table(const std::vector<RunRow>& rows) {
  const auto table = cells(rows);
  std::vector<std::size_t> width(table[0].size());
  for (const auto& line : table)
    for (std::size_t i = 0; i < line.size(); ++i)
      width[i] = std::max(width[i], characters(line[i]));
  std::string out;
  for (const auto& line : table) {
    for (std::size_t i = 0; i < line.size(); ++i) {
      const std::string gap(width[i] - characters(line[i]), ' ');
      out += i == 0 ? line[i] + gap : "  " + gap + line[i];
    }
    out += '\n';
  }
  return out;
}

std::string markdown_table(const std::vector<RunRow>& rows) {
  std::string out;
  bool heading = true;
  for (const auto& line : cells(rows)) {
    out += '|';
    for (const std::string& cell : line) out.append(" ").append(cell).append(" |");
    out += '\n';
    if (!heading) continue;
    out += '|';
    for (std::size_t i = 0; i < line.size(); ++i) out += i == 0 ? "---|" : "---:|";
    out += '\n';
    heading = false;
  }
  return out;
}

std::string json_lines(const std::vector<RunRow>& rows) {
  std::string out;
  for (const RunRow& row : rows) {
    out += str("{\"name\":", json_string(row.name), ",\"steps\":", row.steps, ",\"runs\":[");
    for (std::size_t i = 0; i < row.runs.size(); ++i)
      out.append(i == 0 ? "" : ",").append(json_string(row.runs[i]));
    out += ']';
    for (const Column& column : kColumns) {
      const Spread& of = row.*column.of_row;
      out += str(",\"", column.key, "\":", json_number(of.mean), ",\"", column.key,
                 "_deviation\":", json_number(of.deviation));
    }
    out += "}\n";
  }
  return out;
}

}  // namespace moelab
