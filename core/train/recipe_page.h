// Every key of a recipe's own tables as a page of the documentation.
#pragma once
#include <string>

namespace moelab {

std::string recipe_markdown();  // docs/recipe_keys.md

}  // namespace moelab
