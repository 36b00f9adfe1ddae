// moelab report: runs beside each other.
#include <ostream>

#include "core/cli/options.h"
#include "core/lab/run_table.h"
#include "registry/error.h"

namespace moelab {
namespace {

int run(const Arguments& arguments, const Streams& streams) {
  const std::string format = arguments.text("format", "text");
  const auto print = format == "text"       ? text_table
                     : format == "markdown" ? markdown_table
                     : format == "json"     ? json_lines
                                            : nullptr;
  if (print == nullptr)
    throw Error(ExitCode::usage,
                "--format '" + format + "' must be one of: \"text\", \"markdown\", \"json\"");
  streams.out << print(
      run_table(arguments.positional(0), arguments.integer("last", 50, 1), streams.err));
  return 0;
}

const RegisterVerb registered{
    {.name = "report",
     .summary = "put finished runs beside each other, the seeds of a recipe in one row",
     .positionals = {{"FOLDER", "a folder with runs in it, at any depth, or a run's folder"}},
     .options = {{"last", "N", "steps that balance and speed are taken over (default 50)"},
                 {"format", "NAME", "text (default), markdown, or json: one object a row"}},
     .notes =
         "Runs whose recipes differ in nothing but run.seed and run.folder share a row: mean ± "
         "deviation.\nMaxVio, dropped pairs, experts a token and dead experts are means over "
         "MoE layers and the last steps of training,\ntokens/s the median of those steps.\n"
         "Example: for s in 1 2 3; do moelab train R --set run.seed=$s --out runs/study/R-$s; "
         "done; moelab report runs/study",
     .run = run}};

}  // namespace
}  // namespace moelab
