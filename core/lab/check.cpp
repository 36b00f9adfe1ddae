#include "core/lab/check.h"

#include "core/lab/contracts.h"
#include "core/train/run_config.h"
#include "registry/parameter_info.h"

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

namespace {

std::string broken_text(const Contract& contract, const ContractSubject& subject) {
  try {
    return contract.broken(subject);
  } catch (const std::exception& error) {  // a component may throw whatever it likes
    return str("threw: ", error.what());
  }
}

}  // namespace

CheckResult check_contracts(const std::string& family, const std::string& name) {
  ContractSubject subject{family, name, {}, &member_named(family, name)};
  bool in_layer = false;
  for (ContractSubject& known : contract_subjects()) {
    if (known.family != family || known.name != name) continue;
    subject = std::move(known);
    in_layer = true;
  }
  CheckResult result;
  std::string kept, broken;
  for (const Contract& contract : contracts()) {
    if (!in_layer && contract.name != "docs") continue;
    const std::string why = broken_text(contract, subject);
    if (why.empty())
      kept += " " + contract.name;
    else
      broken += str("  ", contract.name, " (", contract.doc, "): ", why, "\n");
  }
  result.text = str(family, " ", name, ": ", kept.empty() ? "keeps nothing" : "keeps" + kept,
                    broken.empty() ? "" : "; breaks", "\n", broken);
  if (!broken.empty()) result.code = ExitCode::usage;
  return result;
}

}  // namespace moelab
