// moelab check: every mistake of a recipe at once; or what components must keep.
#include <ostream>

#include "core/cli/recipe_arguments.h"
#include "core/lab/check.h"

namespace moelab {
namespace {

int check_recipe_argument(const Arguments& arguments, const Streams& streams) {
  plugin_arguments(arguments);
  const CheckResult result = check_recipe(arguments.positional(0), arguments.texts("set"));
  (result.code == ExitCode::ok ? streams.out : streams.err) << result.text;
  return static_cast<int>(result.code);
}

// The components of the plugins, or all there are; --only leaves those of its family and name.
std::vector<std::pair<std::string, std::string>> subjects(const Arguments& arguments) {
  std::vector<std::pair<std::string, std::string>> out;
  for (const Plugin& plugin : plugin_arguments(arguments))
    out.insert(out.end(), plugin.members.begin(), plugin.members.end());
  if (!arguments.has("plugin"))
    for (const auto& [name, family] : families())
      for (const EntryBase* entry : family->members()) out.emplace_back(name, entry->name);
  const std::string only = arguments.text("only");
  if (only.empty()) return out;
  std::erase_if(out, [&](const auto& member) {
    return member.first != only && member.first + "/" + member.second != only;
  });
  if (out.empty())
    throw Error(ExitCode::usage, str("--only = '", only,
                                     "' names no component here; give FAMILY "
                                     "or FAMILY/NAME, see moelab components"));
  return out;
}

int run(const Arguments& arguments, const Streams& streams) {
  const bool recipe = arguments.positionals() > 0;
  if (recipe == arguments.has("contracts"))
    throw Error(ExitCode::usage, recipe ? "check: give a RECIPE or --contracts, not both"
                                        : "check: missing RECIPE (or --contracts)");
  if (recipe) return check_recipe_argument(arguments, streams);
  int broken = 0;
  for (const auto& [family, name] : subjects(arguments)) {
    const CheckResult result = check_contracts(family, name);
    streams.out << result.text << std::flush;
    broken += result.code == ExitCode::ok ? 0 : 1;
  }
  streams.out << (broken == 0 ? "no broken contract\n" : str(broken, " components are broken\n"));
  return static_cast<int>(broken == 0 ? ExitCode::ok : ExitCode::usage);
}

Positional optional_recipe() {
  Positional recipe = recipe_positional();
  recipe.required = false;
  return recipe;
}

const RegisterVerb registered{
    {.name = "check",
     .summary = "find everything wrong or doubtful about a recipe, without running it; or "
                "components that break a contract",
     .positionals = {optional_recipe()},
     .options = {set_option(),
                 {"contracts", "", "instead of a recipe: run the contracts on components"},
                 plugin_option(),
                 {"only", "FAMILY[/NAME]", "with --contracts: only these"}},
     .notes = "Ends with exit code 2 when there is a mistake; warnings alone are no mistake.\n"
              "Contracts run on the plugins' components, on all without --plugin.",
     .run = run}};

}  // namespace
}  // namespace moelab
