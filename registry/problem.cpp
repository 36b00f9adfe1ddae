#include "registry/problem.h"

#include <algorithm>
#include <tuple>

namespace moelab {

std::string Problem::line() const {
  const std::string place = source.place();
  return str(place, place.empty() ? "" : ": ",
             severity == Severity::error ? "error: " : "warning: ", text);
}

bool Report::has_errors() const {
  return std::any_of(problems_.begin(), problems_.end(),
                     [](const Problem& p) { return p.severity == Problem::Severity::error; });
}

bool Report::has_error_at(std::string_view path) const {
  return std::any_of(problems_.begin(), problems_.end(), [&](const Problem& p) {
    return p.severity == Problem::Severity::error && !p.path.empty() && p.path == path;
  });
}

Source Report::source_of(std::string_view path) const {
  for (;;) {
    for (const ResolvedValue& value : values_) {
      const std::string_view known = value.path;
      if (known == path || path.empty()) return value.source;
      if (known.size() > path.size() && known.starts_with(path) && known[path.size()] == '.')
        return value.source;
    }
    if (path.empty()) return {};
    const std::size_t dot = path.rfind('.');
    path = path.substr(0, dot == std::string_view::npos ? 0 : dot);
  }
}

std::string Report::value_of(std::string_view path) const {
  for (const ResolvedValue& value : values_)
    if (value.path == path) return value.value;
  return {};
}

std::string Report::lines() const {
  std::vector<const Problem*> sorted;
  for (const Problem& problem : problems_) sorted.push_back(&problem);
  const auto place = [](const Problem* p) {
    return std::tie(p->source.file, p->source.line, p->source.column);
  };
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](const Problem* a, const Problem* b) { return place(a) < place(b); });
  std::string out;
  for (const Problem* problem : sorted) out += problem->line() + "\n";
  return out;
}

Checker Checker::under(std::string_view key) const {
  return {report_, prefix_.empty() ? std::string(key) : str(prefix_, ".", key)};
}

void Checker::add(Problem::Severity severity, std::string_view key, const std::string& text) {
  const std::string path = key.empty() ? prefix_ : under(key).prefix_;
  if (report_.has_error_at(path)) return;
  const std::string value = report_.value_of(path);
  report_.problem({severity, report_.source_of(path),
                   str(path, value.empty() ? "" : " = ", value, " ", text), path});
}

}  // namespace moelab
