// From a recipe file to a Node tree (load) and from a Node tree to a Params struct (read_into).
#pragma once
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "registry/component.h"
#include "registry/node.h"
#include "registry/problem.h"

namespace moelab {

// Reads `path`, follows `base = "…"` (relative to the file that says it; tables merge, arrays
// replace, cycles are an error), applies `sets` ("k=v", dotted keys; v is TOML, and a bare word
// that is not TOML is taken as a string) and returns the merged tree. Every mistake of syntax goes
// into `report`; the tree is what could be read. Paths in `plugins` come back absolute. Hostile
// input (huge, deep, binary, a directory, a FIFO) is a problem, never a crash or a hang.
Node load_recipe(const std::string& path, std::span<const std::string> sets, Report& report);
// Applies `sets` to a tree read otherwise.
void apply_sets(Node& tree, std::span<const std::string> sets, Report& report);

// The same for recipe text in memory; `name` stands for the file in messages.
Node parse_recipe(std::string_view text, const std::string& name, Source::Origin origin,
                  Report& report);

// Visits every parameter of `describe` with the values of `table`; unknown keys, wrong types,
// values out of range and unknown components become problems with position, rule and suggestion.
// Every value read or defaulted is recorded in `report`.
void read_into(const Node& table, const std::string& path,
               const std::function<void(ParamVisitor&)>& describe, Report& report);

// The resolved recipe as TOML text that reads back to the same values.
std::string resolved_toml(const Report& report);

}  // namespace moelab
