// `moelab check R`: everything that is wrong or doubtful about a recipe, without running it.
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

}  // namespace moelab
