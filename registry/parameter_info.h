// A member's parameters as rows, for the listings: what describe() says, with the defaults.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "registry/registry.h"

namespace moelab {

struct ParameterInfo {
  std::string key;      // "scope"; nested tables dotted: "bias.rate"
  std::string type;     // boolean, integer, real, string, choice, strings, reals, component, …
  std::string initial;  // the default as TOML; a component's default name; "" for components
  Rule rule;            // of numbers
  std::vector<std::string> choices;  // of a choice: its names
  std::string family;                // of a component: where to look further
  std::string doc;
  std::string range() const;  // "at least 1", "one of a b", "see: moelab components router"
};

std::vector<ParameterInfo> parameters_of(const EntryBase& entry);
std::vector<ParameterInfo> parameters_of(const std::function<void(ParamVisitor&)>& describe);

// Both throw Error(usage) with the nearest name.
const FamilyRegistry& family_named(std::string_view family);
const EntryBase& member_named(std::string_view family, std::string_view name);

}  // namespace moelab
