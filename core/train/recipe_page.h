// Every key of a recipe's own tables, as a page of the documentation and as a schema.
#pragma once
#include <string>

namespace moelab {

std::string recipe_markdown();  // docs/recipe_keys.md
std::string recipe_schema();    // docs/recipe.schema.json, with the components

}  // namespace moelab
