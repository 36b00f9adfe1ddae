#include "core/cli/waiting.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>

namespace moelab {
namespace {

// As fast as long spins on free cores (5 to 8 % less on a tiny model), as fast as sleeping on busy
// ones.
constexpr const char* kSpins = "2000";

}  // namespace

void restart_with_short_spins(char** argv) {
  if (std::getenv("OMP_WAIT_POLICY") || std::getenv("GOMP_SPINCOUNT")) return;
  std::error_code failure;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", failure);
  // Anything else is a loader or a tool that runs this program, and takes other arguments.
  if (failure || program.filename() != "moelab") return;
  if (::setenv("GOMP_SPINCOUNT", kSpins, 1) == 0) ::execv(program.c_str(), argv);
}

}  // namespace moelab
