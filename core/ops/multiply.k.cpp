#include "core/ops/multiply.k.h"

namespace moelab::MOELAB_KERNELS {

template <class T>
void multiply(Index n, const T* x, const T* factor, bool accumulate, T* y) {
  if (accumulate) {
    for_each(n, [=] MOELAB_HD(Index i) { y[i] += x[i] * factor[i]; });
  } else {
    for_each(n, [=] MOELAB_HD(Index i) { y[i] = x[i] * factor[i]; });
  }
}

template void multiply(Index, const float*, const float*, bool, float*);
template void multiply(Index, const double*, const double*, bool, double*);

}  // namespace moelab::MOELAB_KERNELS
