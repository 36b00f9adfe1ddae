#include "core/ops/dropout.k.h"

#include "core/base/philox.k.h"

namespace moelab::MOELAB_KERNELS {

template <class T>
void dropout(Index n, const T* x, const DropoutRule& rule, T factor, bool accumulate, T* y) {
  for_each(n, [=] MOELAB_HD(Index i) {
    const std::uint64_t draw =
        philox_bits53(rule.key, rule.salt, rule.first + static_cast<std::uint64_t>(i));
    const T kept = draw < rule.dropped_below ? T(0) : x[i] * factor;
    y[i] = accumulate ? y[i] + kept : kept;
  });
}

template void dropout(Index, const float*, const DropoutRule&, float, bool, float*);
template void dropout(Index, const double*, const DropoutRule&, double, bool, double*);

}  // namespace moelab::MOELAB_KERNELS
