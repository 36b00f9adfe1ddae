#include "core/lab/check.h"

#include "core/train/run_config.h"

namespace moelab {

CheckResult check_recipe(const std::string& path, std::span<const std::string> sets) {
  Report report;
  const Node root = load_recipe(path, sets, report);
  if (!report.has_errors() || !root.table()->empty()) read_run_config(root, report);
  std::size_t errors = 0;
  for (const Problem& problem : report.problems())
    errors += problem.severity == Problem::Severity::error ? 1 : 0;
  const auto count = [](std::size_t n, std::string_view what) {
    return str(n, " ", what, n == 1 ? "" : "s");
  };
  CheckResult result;
  result.code = errors > 0 ? ExitCode::usage : ExitCode::ok;
  result.text = str(report.lines(), path, ": ", errors == 0 ? "no errors" : count(errors, "error"),
                    ", ", count(report.problems().size() - errors, "warning"), "\n");
  return result;
}

}  // namespace moelab
