#include "core/ops/softplus.k.h"

#include "core/ops/math.k.h"

namespace moelab::MOELAB_KERNELS {

template <class T>
void softplus(Index n, const T* x, T offset, T* y) {
  for_each(n, [=] MOELAB_HD(Index i) { y[i] = fast_softplus(x[i]) + offset; });
}

template <class T>
void softplus_backward(Index n, const T* x, const T* dy, bool accumulate, T* dx) {
  if (accumulate) {
    for_each(n, [=] MOELAB_HD(Index i) { dx[i] += dy[i] * fast_sigmoid(x[i]); });
  } else {
    for_each(n, [=] MOELAB_HD(Index i) { dx[i] = dy[i] * fast_sigmoid(x[i]); });
  }
}

template void softplus(Index, const float*, float, float*);
template void softplus(Index, const double*, double, double*);
template void softplus_backward(Index, const float*, const float*, bool, float*);
template void softplus_backward(Index, const double*, const double*, bool, double*);

}  // namespace moelab::MOELAB_KERNELS
