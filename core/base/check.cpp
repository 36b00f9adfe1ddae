#include "core/base/check.h"

namespace moelab {

void check_failed(const char* expression, const std::string& values, std::source_location where) {
  throw InternalError(str("broken invariant ", expression, values.empty() ? "" : ": ", values, " (",
                          where.file_name(), ":", where.line(), " in ", where.function_name(),
                          "); this is a bug of moelab or a component"));
}

}  // namespace moelab
