// `moelab --version`.
#pragma once
#include <string>

namespace moelab {

std::string version_text();       // version, compiler, flags, libraries, CPU features
std::string cpu_feature_lines();  // "  present: …\n  built for: …\n"

}  // namespace moelab
