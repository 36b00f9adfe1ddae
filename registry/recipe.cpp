// load_recipe(): base files, then the recipe, then --set, each laid on what was there; and the
// resolved recipe as text.
#include "registry/recipe.h"

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "registry/toml_reader.h"

namespace moelab {
namespace {

namespace fs = std::filesystem;

std::string identity(const std::string& path) {
  std::error_code ignored;
  const fs::path canonical = fs::weakly_canonical(path, ignored);
  return canonical.empty() ? path : canonical.string();
}

class Loader {
 public:
  explicit Loader(Report& report) : report_(report) {}

  Node load(const std::string& path, Source::Origin origin, const Source& blame) {
    const std::optional<std::string> text = read_recipe_file(path, blame, report_);
    if (!text) return {Node::Table{}, blame, blame};
    Node tree = parse_recipe(*text, path, origin, report_);
    const auto at = tree.table()->find("base");
    if (at == tree.table()->end()) return tree;
    const Node base = std::move(at->second);
    tree.table()->erase(at);
    chain_.push_back(path);
    Node under = load_base(base, path);
    chain_.pop_back();
    merge(under, std::move(tree));
    return under;
  }

 private:
  Node load_base(const Node& base, const std::string& path) {
    const auto* name = std::get_if<std::string>(&base.value);
    const auto fail = [&](const std::string& why) {
      report_.problem(
          {Problem::Severity::error, base.source, str("base = ", base.text(), " ", why), "base"});
      return Node{Node::Table{}, base.source, base.source};
    };
    if (!name) return fail(str("must be a string, not ", base.kind()));
    const std::string next = (fs::path(path).parent_path() / *name).lexically_normal().string();
    std::string cycle;
    bool found = false;
    for (const std::string& seen : chain_) {
      found = found || identity(seen) == identity(next);
      if (found) cycle += seen + " -> ";
    }
    if (found) return fail(str("inherits from itself: ", cycle, next));
    if (chain_.size() >= kMostBases) return fail(str("makes a chain of more than ", kMostBases));
    return load(next, Source::Origin::base, base.source);
  }

  static constexpr std::size_t kMostBases = 32;
  Report& report_;
  std::vector<std::string> chain_;
};

std::vector<std::string> split_key(std::string_view key) {
  std::vector<std::string> parts;
  for (;;) {
    const std::size_t dot = key.find('.');
    parts.emplace_back(key.substr(0, dot));
    if (dot == std::string_view::npos) return parts;
    key.remove_prefix(dot + 1);
  }
}

// TOML if it is TOML, else a bare word; nothing after reporting a value that can only be a mistake.
std::optional<Node> parse_set_value(const std::string& text, const std::string& key,
                                    Report& report) {
  Report attempt;
  const std::string name = "--set " + key;
  Node parsed = parse_recipe("v = " + text, name, Source::Origin::set, attempt);
  Source source{Source::Origin::set, name, 0, 0};
  if (!attempt.has_errors() && parsed.table()->size() == 1 && parsed.find("v")) {
    Node value = std::move(parsed.table()->begin()->second);
    value.source = value.key_source = source;
    return value;
  }
  const std::string why = attempt.has_errors() ? attempt.problems().front().text : "";
  const bool meant_as_toml =
      text.find_first_of("\"'[{") == 0 || why.find(kTooManyBits) != std::string::npos;
  if (!meant_as_toml || why.empty()) return Node{text, source, source};
  report.problem({Problem::Severity::error, source, "the value is not TOML: " + why, key});
  return {};
}

void apply_set(Node& tree, const std::string& set, Report& report) {
  const auto fail = [&](const std::string& why) {
    Problem problem;
    problem.source = {Source::Origin::set, "--set", 0, 0};
    problem.text = why;
    report.problem(std::move(problem));
  };
  if (!valid_utf8(set) || set.size() > kMaxRecipeBytes) return fail("is not valid UTF-8");
  const std::size_t equals = set.find('=');
  const std::string key = set.substr(0, equals);
  const std::vector<std::string> parts = split_key(key);
  if (equals == std::string::npos || parts.size() > kMaxRecipeDepth ||
      !std::all_of(parts.begin(), parts.end(), is_bare_key))
    return fail(str("'", set.substr(0, 60), "' is not of the form section.key=value"));
  std::optional<Node> given = parse_set_value(set.substr(equals + 1), key, report);
  if (!given) return;
  Node value = *std::move(given);
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    Node outer{Node::Table{}, value.source, value.source};
    outer.table()->emplace(*part, std::move(value));
    value = std::move(outer);
  }
  merge(tree, std::move(value));
}

// Paths in `plugins` are relative to the file that names them (--set: to the current folder); from
// here on they are absolute, so that a run's own recipe finds them again.
void resolve_plugins(Node& tree) {
  const auto at = tree.table()->find("plugins");
  auto* items = at == tree.table()->end() ? nullptr : std::get_if<Node::Array>(&at->second.value);
  if (!items) return;
  for (Node& item : *items) {
    auto* text = std::get_if<std::string>(&item.value);
    if (!text) continue;
    const bool set = item.source.origin == Source::Origin::set;
    const fs::path folder = set ? fs::path() : fs::path(item.source.file).parent_path();
    std::error_code ignored;
    *text = fs::absolute(folder / *text, ignored).lexically_normal().string();
  }
}

}  // namespace

Node load_recipe(const std::string& path, std::span<const std::string> sets, Report& report) {
  const Source start{Source::Origin::recipe, path, 0, 0};
  Node tree = Loader(report).load(path, Source::Origin::recipe, start);
  apply_sets(tree, sets, report);
  resolve_plugins(tree);
  return tree;
}

void apply_sets(Node& tree, std::span<const std::string> sets, Report& report) {
  for (const std::string& set : sets) apply_set(tree, set, report);
}

std::string resolved_toml(const Report& report) {
  std::vector<std::pair<std::string, std::string>> tables;  // in order of first appearance
  tables.emplace_back("", "");
  for (const ResolvedValue& value : report.values()) {
    const std::size_t dot = value.path.rfind('.');
    const std::string table = dot == std::string::npos ? "" : value.path.substr(0, dot);
    const std::string key = dot == std::string::npos ? value.path : value.path.substr(dot + 1);
    auto at = std::find_if(tables.begin(), tables.end(),
                           [&](const auto& known) { return known.first == table; });
    if (at == tables.end()) at = tables.insert(at, {table, ""});
    at->second += str(key, " = ", value.value, "\n");
  }
  std::string out;
  for (const auto& [table, lines] : tables) {
    if (lines.empty()) continue;
    if (!out.empty()) out += "\n";
    if (!table.empty()) out += str("[", table, "]\n");
    out += lines;
  }
  return out;
}

}  // namespace moelab
