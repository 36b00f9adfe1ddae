// Refuses to run on a CPU that lacks what the library was compiled for, with a sentence instead of
// an illegal instruction. It runs before every other initialiser of the library and is compiled
// for any x86-64 CPU, so it uses nothing but system calls.
#include "core/base/cpu_guard.h"

#include <unistd.h>

#include <cstring>

namespace moelab::cpu {

unsigned present() {
  unsigned bits = 0;
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx")) bits |= kAvx;
  if (__builtin_cpu_supports("avx2")) bits |= kAvx2;
  if (__builtin_cpu_supports("fma")) bits |= kFma;
  if (__builtin_cpu_supports("bmi2")) bits |= kBmi2;
  if (__builtin_cpu_supports("avx512f")) bits |= kAvx512f;
  if (__builtin_cpu_supports("avx512bw")) bits |= kAvx512bw;
  if (__builtin_cpu_supports("avx512dq")) bits |= kAvx512dq;
  if (__builtin_cpu_supports("avx512vl")) bits |= kAvx512vl;
  if (__builtin_cpu_supports("avx512vbmi")) bits |= kAvx512vbmi;
  if (__builtin_cpu_supports("avx512vnni")) bits |= kAvx512vnni;
  if (__builtin_cpu_supports("avx512bf16")) bits |= kAvx512bf16;
#endif
  return bits;
}

namespace {

constexpr int kExitResources = 7;  // ExitCode::resources

void say(const char* text) {
  if (::write(STDERR_FILENO, text, std::strlen(text)) < 0) return;  // nothing better to do
}

__attribute__((constructor(101))) void refuse_foreign_cpu() {
  const unsigned missing = built_for & ~present();
  if (missing == 0) return;
  say("moelab: this binary was built with -march=native on another machine; this CPU lacks");
  for (const Feature& feature : kFeatures) {
    if ((missing & feature.bit) == 0) continue;
    say(" ");
    say(feature.name);
  }
  say(". Build it here (cmake --preset release && cmake --build --preset release), or build it for "
      "any CPU with -DMOELAB_MARCH=x86-64-v2.\n");
  ::_exit(kExitResources);
}

}  // namespace
}  // namespace moelab::cpu
