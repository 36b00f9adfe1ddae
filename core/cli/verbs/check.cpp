// moelab check: every mistake of a recipe at once.
#include <ostream>

#include "core/cli/recipe_arguments.h"
#include "core/lab/check.h"

namespace moelab {
namespace {

int run(const Arguments& arguments, const Streams& streams) {
  const CheckResult result = check_recipe(arguments.positional(0), arguments.texts("set"));
  (result.code == ExitCode::ok ? streams.out : streams.err) << result.text;
  return static_cast<int>(result.code);
}

const RegisterVerb registered{
    {.name = "check",
     .summary = "find everything wrong or doubtful about a recipe, without running it",
     .positionals = {recipe_positional()},
     .options = {set_option()},
     .notes = "Ends with exit code 2 when there is a mistake; warnings alone are no mistake.",
     .run = run}};

}  // namespace
}  // namespace moelab
