#include "core/cli/version.h"

#include "core/backend/gemm.h"
#include "core/base/build_info.h"
#include "registry/text.h"

namespace moelab {

std::string cpu_feature_lines() {
  std::string present, built_for;
  for (const CpuFeature& feature : cpu_features()) {
    if (feature.present) present += " " + feature.name;
    if (feature.built_for) built_for += " " + feature.name;
  }
  if (built_for.empty()) built_for = " any x86-64";
  return str("  present:  ", present, "\n  built for:", built_for, "\n");
}

std::string version_text() {
  const BuildInfo& build = build_info();
  std::string text = str("moelab ", build.version, "\ncompiler: ", build.compiler, ", ",
                         build.build_type, ", ", build.flags, "\nlibraries: ", gemm_library());
  for (const auto& [name, version] : build.libraries) text += str(", ", name, " ", version);
  return str(text, "\nCPU: ", cpu_model(), "\n", cpu_feature_lines());
}

}  // namespace moelab
