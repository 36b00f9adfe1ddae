// Bits of CPU features that -march=native may have used. Shared by cpu_built_for.cpp (constant
// data, compiled as everything else) and cpu_guard.cpp (code, compiled for any x86-64).
#pragma once
#include <array>

namespace moelab::cpu {

struct Feature {
  const char* name;
  unsigned bit;
};
constexpr unsigned kAvx = 1, kAvx2 = 2, kFma = 4, kBmi2 = 8, kAvx512f = 16, kAvx512bw = 32,
                   kAvx512dq = 64, kAvx512vl = 128, kAvx512vbmi = 256, kAvx512vnni = 512,
                   kAvx512bf16 = 1024;
constexpr std::array<Feature, 11> kFeatures{{{"avx", kAvx},
                                             {"avx2", kAvx2},
                                             {"fma", kFma},
                                             {"bmi2", kBmi2},
                                             {"avx512f", kAvx512f},
                                             {"avx512bw", kAvx512bw},
                                             {"avx512dq", kAvx512dq},
                                             {"avx512vl", kAvx512vl},
                                             {"avx512vbmi", kAvx512vbmi},
                                             {"avx512_vnni", kAvx512vnni},
                                             {"avx512_bf16", kAvx512bf16}}};

extern const unsigned built_for;
unsigned present();

}  // namespace moelab::cpu
