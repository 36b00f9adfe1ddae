// What the compiler was told it may use. Constant data: nothing here runs.
#include "core/base/cpu_guard.h"

namespace moelab::cpu {
namespace {

constexpr unsigned kNone = 0;

}  // namespace

const unsigned built_for = kNone
#ifdef __AVX__
                           | kAvx
#endif
#ifdef __AVX2__
                           | kAvx2
#endif
#ifdef __FMA__
                           | kFma
#endif
#ifdef __BMI2__
                           | kBmi2
#endif
#ifdef __AVX512F__
                           | kAvx512f
#endif
#ifdef __AVX512BW__
                           | kAvx512bw
#endif
#ifdef __AVX512DQ__
                           | kAvx512dq
#endif
#ifdef __AVX512VL__
                           | kAvx512vl
#endif
#ifdef __AVX512VBMI__
                           | kAvx512vbmi
#endif
#ifdef __AVX512VNNI__
                           | kAvx512vnni
#endif
#ifdef __AVX512BF16__
                           | kAvx512bf16
#endif
    ;

}  // namespace moelab::cpu
