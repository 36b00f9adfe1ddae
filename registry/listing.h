// The registered components as text, Markdown and JSON: all from the one describe().
#pragma once
#include <functional>
#include <string>
#include <string_view>

#include "registry/params.h"

namespace moelab {

std::string list_families();                       // families, members, summaries
std::string list_family(std::string_view family);  // one family; throws Error(usage)
std::string list_component(std::string_view family, std::string_view name);  // every parameter
std::string components_json();                                               // everything as data
std::string family_json(std::string_view family);
std::string component_json(std::string_view family, std::string_view name);
std::string components_markdown();  // docs/components.md
// A table of everything that `describe` visits; components refer to `page`.
std::string parameters_markdown(const std::function<void(ParamVisitor&)>& describe,
                                std::string_view page);

}  // namespace moelab
