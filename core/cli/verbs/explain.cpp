// moelab explain: every value with its origin, what the layers compute, what the run will cost.
#include <ostream>

#include "core/cli/recipe_arguments.h"
#include "core/lab/explain.h"

namespace moelab {
namespace {

int run(const Arguments& arguments, const Streams& streams) {
  streams.out << explain_recipe(arguments.positional(0), arguments.texts("set"));
  return 0;
}

const RegisterVerb registered{
    {.name = "explain",
     .summary = "every value with its origin, the layers' formulas, parameters, FLOPs, memory",
     .positionals = {recipe_positional()},
     .options = {set_option()},
     .notes = "",
     .run = run}};

}  // namespace
}  // namespace moelab
