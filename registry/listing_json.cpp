// The listings as JSON.
#include <nlohmann/json.hpp>

#include "registry/listing.h"
#include "registry/parameter_info.h"

namespace moelab {
namespace {

using Json = nlohmann::ordered_json;

Json parameter(const ParameterInfo& row) {
  Json out{{"name", row.key}, {"type", row.type}, {"doc", row.doc}};
  // Defaults are numbers, words and arrays in TOML, and read the same as JSON.
  if (!row.initial.empty()) out["default"] = Json::parse(row.initial);
  if (row.rule.least) out[row.rule.open_least ? "greater_than" : "at_least"] = *row.rule.least;
  if (row.rule.most) out[row.rule.open_most ? "less_than" : "at_most"] = *row.rule.most;
  if (!row.choices.empty()) out["choices"] = row.choices;
  if (!row.family.empty()) out["family"] = row.family;
  return out;
}

Json member(const FamilyRegistry& family, const EntryBase& entry) {
  Json parameters = Json::array();
  for (const ParameterInfo& row : parameters_of(entry)) parameters.push_back(parameter(row));
  return {{"family", family.family()},
          {"name", entry.name},
          {"summary", entry.summary},
          {"parameters", parameters}};
}

}  // namespace

std::string components_json() {
  Json out = Json::array();
  for (const auto& [name, family] : families())
    for (const EntryBase* entry : family->members()) out.push_back(member(*family, *entry));
  return out.dump(2) + "\n";
}

std::string family_json(std::string_view family) {
  const FamilyRegistry& registry = family_named(family);
  Json out = Json::array();
  for (const EntryBase* entry : registry.members()) out.push_back(member(registry, *entry));
  return out.dump(2) + "\n";
}

std::string component_json(std::string_view family, std::string_view name) {
  return member(family_named(family), member_named(family, name)).dump(2) + "\n";
}

}  // namespace moelab
