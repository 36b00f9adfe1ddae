// moelab components: what is registered, from the one description of every parameter.
#include <ostream>

#include "core/cli/recipe_arguments.h"
#include "core/train/recipe_page.h"
#include "registry/error.h"
#include "registry/listing.h"
#include "registry/text.h"

namespace moelab {
namespace {

enum class Format { text, markdown, json };

Format format_of(const Arguments& arguments) {
  const std::string given = arguments.has("json") ? "json" : arguments.text("format", "text");
  if (given == "text") return Format::text;
  if (given == "md") return Format::markdown;
  if (given == "json") return Format::json;
  throw Error(ExitCode::usage, str("--format = '", given, "' must be one of text md json"));
}

std::string listing(const std::string& family, const std::string& name, Format format) {
  if (format == Format::json) {
    if (family.empty()) return components_json();
    return name.empty() ? family_json(family) : component_json(family, name);
  }
  if (format == Format::markdown) {
    if (!family.empty())
      throw Error(ExitCode::usage, "--format md lists everything; leave out family and name");
    return components_markdown();
  }
  if (family.empty()) return list_families();
  return name.empty() ? list_family(family) : list_component(family, name);
}

int run(const Arguments& arguments, const Streams& streams) {
  plugin_arguments(arguments);
  if (arguments.has("schema")) {
    if (arguments.positionals() > 0 || arguments.has("json") || arguments.has("format"))
      throw Error(ExitCode::usage, "--schema is of whole recipes; leave out everything else");
    streams.out << recipe_schema();
    return 0;
  }
  streams.out << listing(arguments.positional(0), arguments.positional(1), format_of(arguments));
  return 0;
}

const RegisterVerb registered{
    {.name = "components",
     .summary = "list families, their members, and every parameter of a member",
     .positionals = {{"FAMILY", "e.g. router; all families without it", false},
                     {"NAME", "a member: its parameters with type, default, range", false}},
     .options = {{"json", "", "the same as data (--format json)"},
                 {"format", "F", "text (default), md, json"},
                 {"schema", "", "the JSON Schema of a whole recipe, for editors"},
                 plugin_option()},
     .notes =
         "Examples: moelab components, moelab components router, moelab components router softmax",
     .run = run}};

}  // namespace
}  // namespace moelab
