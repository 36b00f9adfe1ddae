#include "core/base/build_info.h"

#include <fstream>

#include "core/base/cpu_guard.h"

namespace moelab {

const BuildInfo& build_info() {
  static const BuildInfo info{MOELAB_VERSION,
                              MOELAB_COMPILER,
                              MOELAB_BUILD_TYPE,
                              MOELAB_BUILD_FLAGS,
                              {{"Boost", MOELAB_BOOST_VERSION},
                               {"nlohmann-json", MOELAB_JSON_VERSION},
                               {"OpenMP", MOELAB_OPENMP_VERSION},
                               {"toml++", MOELAB_TOML_VERSION}}};
  return info;
}

std::vector<CpuFeature> cpu_features() {
  std::vector<CpuFeature> out;
  const unsigned present = cpu::present();
  for (const auto& [name, bit] : cpu::kFeatures)
    out.push_back({name, (cpu::built_for & bit) != 0, (present & bit) != 0});
  return out;
}

std::string cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name")) return line.substr(line.find(": ") + 2);
  return "unknown";
}

}  // namespace moelab
