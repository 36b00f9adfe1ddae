// `moelab check`: everything that is wrong or doubtful about a recipe, without running it; and
// whether a component keeps its contracts.
#pragma once
#include <span>
#include <string>

#include "registry/error.h"

namespace moelab {

struct CheckResult {
  ExitCode code = ExitCode::ok;  // usage when there is an error; warnings alone are ok
  std::string text;              // one problem a line, then a line that sums up
};
CheckResult check_recipe(const std::string& path, std::span<const std::string> sets);
// A line with what the component keeps, then one for each contract that it breaks. Families that
// are no part of a MoE layer have the contract "docs" only.
CheckResult check_contracts(const std::string& family, const std::string& name);

}  // namespace moelab
