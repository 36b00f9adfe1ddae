#include "core/ops/jitter.k.h"

#include "core/base/philox.k.h"

namespace moelab::MOELAB_KERNELS {

template <class T>
void draw_jitter(Index n, double eps, std::uint64_t key, std::uint64_t salt, std::uint64_t first,
                 T* factor) {
  for_each(n, [=] MOELAB_HD(Index i) {
    const std::uint64_t draw = philox_bits53(key, salt, first + static_cast<std::uint64_t>(i));
    const double uniform = static_cast<double>(draw) * 0x1p-53;
    factor[i] = static_cast<T>(1.0 + eps * (2.0 * uniform - 1.0));
  });
}

template void draw_jitter(Index, double, std::uint64_t, std::uint64_t, std::uint64_t, float*);
template void draw_jitter(Index, double, std::uint64_t, std::uint64_t, std::uint64_t, double*);

}  // namespace moelab::MOELAB_KERNELS
