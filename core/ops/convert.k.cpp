#include "core/ops/convert.k.h"

namespace moelab::MOELAB_KERNELS {

template <class From, class To>
void convert(Index n, const From* x, bool accumulate, To* y) {
  if (accumulate) {
    for_each(n, [=] MOELAB_HD(Index i) { y[i] += static_cast<To>(x[i]); });
  } else {
    for_each(n, [=] MOELAB_HD(Index i) { y[i] = static_cast<To>(x[i]); });
  }
}

template void convert(Index, const float*, bool, float*);
template void convert(Index, const float*, bool, double*);
template void convert(Index, const double*, bool, float*);
template void convert(Index, const double*, bool, double*);

}  // namespace moelab::MOELAB_KERNELS
