#include "core/lab/peer_figures.h"

#include <cmath>
#include <fstream>
#include <iomanip>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/lab/samples.h"
#include "registry/error.h"
#include "registry/text.h"

namespace moelab {
namespace {

using Json = nlohmann::json;

std::string text_of(const Json& line, const char* key) {
  const auto at = line.find(key);
  return at != line.end() && at->is_string() ? at->get<std::string>() : std::string();
}

PeerWork work_of(const Json& line) {
  PeerWork work;
  work.dtype = text_of(line, "dtype");
  if (line.contains("summary")) {
    work.kind = "train";
    return work;
  }
  work.pass = text_of(line, "pass");
  work.shape = text_of(line, "shape");
  if (line.contains("op")) {
    work.kind = "op";
    work.name = text_of(line, "op");
  } else if (line.contains("shape") && line.contains("routing")) {
    work.kind = "layer";
    work.name = std::move(work.shape);
    work.shape.clear();
    work.routing = text_of(line, "routing");
  }
  return work;
}

}  // namespace

PeerFigures::PeerFigures(const std::string& path, const std::string& kind) : given_(!path.empty()) {
  if (!given_) return;
  std::ifstream in(path);
  if (!in) throw Error(ExitCode::data, str("--against ", path, ": cannot be read"));
  int number = 0;
  for (std::string text; std::getline(in, text);) {
    ++number;
    if (text.find_first_not_of(" \t\r") == std::string::npos) continue;
    const Json line = Json::parse(text, nullptr, false);
    if (!line.is_object())
      throw Error(ExitCode::data, str("--against ", path, ":", number, ": is no JSON object; ",
                                      "the file needs one measurement a line (docs/benchmarks.md "
                                      "has the keys)"));
    if (line.contains("failed") || line.contains("skipped") || line.contains("wrong")) continue;
    const auto ms = line.find("ms_median");
    if (ms == line.end() || !ms->is_number() || !(ms->get<double>() > 0)) continue;
    Line found;
    found.work = work_of(line);
    found.figure = {text_of(line, line.contains("summary") ? "summary" : "way"), ms->get<double>()};
    const auto threads = line.find("threads");
    if (threads != line.end() && threads->is_number_integer()) found.threads = threads->get<int>();
    if (found.work.kind == kind && !found.figure.way.starts_with("roof_"))
      lines_.push_back(std::move(found));
  }
  if (in.bad()) throw Error(ExitCode::data, str("--against ", path, ": cannot be read to its end"));
  if (lines_.empty())
    throw Error(ExitCode::data,
                str("--against ", path, ": has no figure of this kind (", kind,
                    ") with an ms_median above 0; docs/benchmarks.md has the keys of a line"));
}

std::optional<PeerFigure> PeerFigures::best(const PeerWork& work, int threads) const {
  std::map<std::string, std::vector<double>> ways;
  for (const Line& line : lines_)
    if (line.work == work && (line.threads == 0 || line.threads == threads))
      ways[line.figure.way].push_back(line.figure.ms);
  std::optional<PeerFigure> best;
  for (const auto& [way, times] : ways)
    if (const double ms = median(times); !best || ms < best->ms) best = PeerFigure{way, ms};
  return best;
}

void print_peer_json(std::ostream& out, const PeerFigures& peers,
                     const std::optional<PeerFigure>& best, double ms) {
  if (!peers.given() || !best) return;
  out << ",\"other_way\":" << Json(best->way).dump() << ",\"other_ms\":" << exact(best->ms)
      << ",\"ratio\":" << exact(best->ms / ms);
}

void print_peer_columns(std::ostream& out, const PeerFigures& peers,
                        const std::optional<PeerFigure>& best, double ms) {
  if (!peers.given()) return;
  std::ostringstream text;
  text << std::fixed << std::right;
  if (best)
    text << std::setprecision(2) << std::setw(10) << best->ms << std::setw(7) << best->ms / ms
         << "  " << best->way;
  else
    text << std::setw(10) << '-' << std::setw(7) << '-' << "  not in the file";
  out << text.str();
}

}  // namespace moelab
