// The only file that sees toml++.
#include "registry/toml_reader.h"

#include <toml++/toml.h>

#include <algorithm>
#include <limits>
#include <sstream>

#include "registry/recipe.h"

namespace moelab {
namespace {

class Converter {
 public:
  Converter(const std::string& name, Source::Origin origin, Report& report)
      : name_(name), origin_(origin), report_(report) {}

  Node convert(const toml::node& from, const Source* key = nullptr) {
    Node node;
    node.source = source(from.source());
    node.key_source = key ? *key : node.source;
    if (const auto* table = from.as_table()) {
      node.value = Node::Table{};
      for (const auto& [name, item] : *table) {
        const Source at = source(name.source());
        node.table()->emplace(std::string(name.str()), convert(item, &at));
      }
    } else if (const auto* array = from.as_array()) {
      Node::Array items;
      for (const toml::node& item : *array) items.push_back(convert(item));
      node.value = std::move(items);
    } else if (const auto* boolean = from.as_boolean()) {
      node.value = boolean->get();
    } else if (const auto* integer = from.as_integer()) {
      node.value = integer->get();
    } else if (const auto* real = from.as_floating_point()) {
      node.value = real->get();
    } else if (const auto* string = from.as_string()) {
      node.value = string->get();
    } else {
      refuse_date(node);
    }
    return node;
  }

  Source source(const toml::source_region& region) const {
    return {origin_, name_, static_cast<int>(region.begin.line),
            static_cast<int>(region.begin.column)};
  }

 private:
  void refuse_date(Node& node) {
    report_.problem({Problem::Severity::error, node.source,
                     "dates and times have no use in a recipe; quote the value if it is text", ""});
    node.value = std::string();
  }
  const std::string& name_;
  Source::Origin origin_;
  Report& report_;
};

Source place_of(std::string_view text, std::size_t offset, const std::string& name,
                Source::Origin origin) {
  const std::string_view before = text.substr(0, offset);
  const std::size_t start = before.rfind('\n');
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const std::size_t column = start == std::string_view::npos ? offset + 1 : offset - start;
  return {origin, name, static_cast<int>(line), static_cast<int>(column)};
}

// Empties line `number` (1-based) of `text`; false if parsing cannot go on without it: a table's
// header, or a line behind the end.
bool blank_line(std::string& text, int number) {
  std::size_t begin = 0;
  for (int line = 1; line < number; ++line) {
    begin = text.find('\n', begin);
    if (begin == std::string::npos) return false;
    ++begin;
  }
  const std::size_t end = std::min(text.find('\n', begin), text.size());
  const std::size_t first = text.find_first_not_of(" \t", begin);
  if (first >= end || text[first] == '[') return false;
  std::fill(text.begin() + static_cast<std::ptrdiff_t>(begin),
            text.begin() + static_cast<std::ptrdiff_t>(end), ' ');
  return true;
}

// toml++ says only that a number is not representable.
std::string with_remedy(std::string_view description) {
  std::string text(description);
  if (text.find(kTooManyBits) != std::string::npos)
    text += str("; integers lie in [", std::numeric_limits<std::int64_t>::min(), ", ",
                std::numeric_limits<std::int64_t>::max(),
                "], and a real number has a point or an exponent");
  return text;
}

Node empty_table(const std::string& name, Source::Origin origin) {
  const Source start{origin, name, name.starts_with("--set") ? 0 : 1, 1};
  return {Node::Table{}, start, start};
}

}  // namespace

// toml++ stops at the first mistake; the line it stands on is emptied and the text parsed again, so
// that further mistakes are found too.
Node parse_recipe(std::string_view text, const std::string& name, Source::Origin origin,
                  Report& report) {
  const auto problem = [&](const Source& source, const std::string& what) {
    report.problem({Problem::Severity::error, source, what, ""});
  };
  if (const auto finding = guard_toml(text)) {
    problem(place_of(text, finding->offset, name, origin), finding->text);
    return empty_table(name, origin);
  }
  constexpr int kMostMistakes = 10;
  std::string left(text);
  int last_line = 0;
  for (int mistakes = 0; mistakes < kMostMistakes; ++mistakes) {
    Converter converter(name, origin, report);
    try {
      const toml::table table = toml::parse(left);
      Node root = converter.convert(table);
      root.source = root.key_source = empty_table(name, origin).source;
      return root;
    } catch (const toml::parse_error& error) {
      const Source at = converter.source(error.source());
      problem(at, with_remedy(error.description()));
      if (at.line <= last_line || !blank_line(left, at.line)) break;
      last_line = at.line;
    }
  }
  return empty_table(name, origin);
}

}  // namespace moelab
