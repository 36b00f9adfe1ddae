#include "core/cli/cli.h"

#include <cstdio>

namespace moelab {

int cli_main(int, char**) {
  std::puts("moelab");
  return 2;
}

}  // namespace moelab
