#include "core/ops/elementwise.k.h"

namespace moelab::MOELAB_KERNELS {

template <class T>
void fill(Index n, T value, bool accumulate, T* y) {
  if (accumulate)
    for_each(n, [=] MOELAB_HD(Index i) { y[i] += value; });
  else
    for_each(n, [=] MOELAB_HD(Index i) { y[i] = value; });
}

template <class T>
void add_scaled(Index n, T factor, const T* x, bool accumulate, T* y) {
  if (accumulate)
    for_each(n, [=] MOELAB_HD(Index i) { y[i] += factor * x[i]; });
  else
    for_each(n, [=] MOELAB_HD(Index i) { y[i] = factor * x[i]; });
}

template <class T>
void sum_of(Index n, const T* a, const T* b, T* y) {
  for_each(n, [=] MOELAB_HD(Index i) { y[i] = a[i] + b[i]; });
}

template void fill(Index, float, bool, float*);
template void fill(Index, double, bool, double*);
template void add_scaled(Index, float, const float*, bool, float*);
template void add_scaled(Index, double, const double*, bool, double*);
template void sum_of(Index, const float*, const float*, float*);
template void sum_of(Index, const double*, const double*, double*);

}  // namespace moelab::MOELAB_KERNELS
