// What this binary is: for --version, doctor and the environment file of a run.
#pragma once
#include <string>
#include <utility>
#include <vector>

namespace moelab {

struct BuildInfo {
  std::string version;                                         // "0.1.0"
  std::string compiler;                                        // "GNU 12.2.0"
  std::string build_type;                                      // "Release"
  std::string flags;                                           // "-O3 -DNDEBUG -march=native"
  std::vector<std::pair<std::string, std::string>> libraries;  // name, version built against
};
const BuildInfo& build_info();

struct CpuFeature {
  std::string name;        // as the kernel spells it in /proc/cpuinfo: "avx512f"
  bool built_for = false;  // the compiler was allowed to use it
  bool present = false;    // this CPU has it
};
std::vector<CpuFeature> cpu_features();
std::string cpu_model();  // "AMD EPYC 9R14", "unknown"

}  // namespace moelab
