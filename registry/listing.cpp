#include "registry/listing.h"

#include <algorithm>

#include "registry/parameter_info.h"
#include "registry/text.h"

namespace moelab {
namespace {

std::string padded(std::string text, std::size_t width) {
  text.resize(std::max(text.size(), width), ' ');
  return text;
}

std::string member_lines(const FamilyRegistry& family) {
  std::size_t width = 0;
  for (const EntryBase* entry : family.members()) width = std::max(width, entry->name.size());
  std::string out;
  for (const EntryBase* entry : family.members())
    out += str("  ", padded(entry->name, width), "  ", entry->summary, "\n");
  return out;
}

// '|' would end a table's cell.
std::string cell(std::string_view text) {
  std::string out;
  for (const char c : text) out += c == '|' ? "\\|" : std::string(1, c);
  return out;
}

std::string code(const std::string& text) { return text.empty() ? "" : str("`", cell(text), "`"); }

std::string table_markdown(const std::vector<ParameterInfo>& rows, std::string_view page) {
  std::string out = "\n| parameter | type | default | range | |\n|---|---|---|---|---|\n";
  for (const ParameterInfo& row : rows) {
    const std::string range = row.family.empty()
                                  ? cell(row.range())
                                  : str("[", row.family, "](", page, "#", row.family, ")");
    out += str("| `", row.key, "` | ", row.type, " | ", code(row.initial), " | ", range, " | ",
               cell(row.doc), " |\n");
  }
  return out;
}

std::string member_markdown(const EntryBase& entry) {
  const std::string out = str("\n### ", entry.name, "\n\n", entry.summary, "\n");
  const std::vector<ParameterInfo> rows = parameters_of(entry);
  return out + (rows.empty() ? "\nNo parameters.\n" : table_markdown(rows, ""));
}

}  // namespace

std::string list_families() {
  std::string out;
  for (const auto& [name, family] : families())
    out += str(out.empty() ? "" : "\n", name, "\n", member_lines(*family));
  return out;
}

std::string list_family(std::string_view family) {
  const FamilyRegistry& registry = family_named(family);
  return str(registry.family(), "\n", member_lines(registry));
}

std::string list_component(std::string_view family, std::string_view name) {
  const EntryBase& entry = member_named(family, name);
  const std::vector<ParameterInfo> rows = parameters_of(entry);
  std::string out = str(family, " ", entry.name, ": ", entry.summary, "\n");
  if (rows.empty()) return out + "  no parameters\n";
  std::size_t key = 0, type = 0, initial = 0, range = 0;
  for (const ParameterInfo& row : rows) {
    key = std::max(key, row.key.size());
    type = std::max(type, row.type.size());
    initial = std::max(initial, row.initial.size());
    range = std::max(range, row.range().size());
  }
  for (const ParameterInfo& row : rows)
    out += str("  ", padded(row.key, key), "  ", padded(row.type, type), "  ",
               padded(row.initial, initial), "  ", padded(row.range(), range), "  ", row.doc, "\n");
  return out;
}

std::string components_markdown() {
  std::string out =
      "# Components\n\nEvery registered component with its parameters. Generated from the binary: "
      "`cmake --build --preset release --target docs`.\n";
  for (const auto& [name, family] : families()) {
    out += str("\n## ", name, "\n");
    for (const EntryBase* entry : family->members()) out += member_markdown(*entry);
  }
  return out;
}

std::string parameters_markdown(const std::function<void(ParamVisitor&)>& describe,
                                std::string_view page) {
  return table_markdown(parameters_of(describe), page);
}

}  // namespace moelab
