#include "core/optim/adamw.k.h"

#include <cmath>

namespace moelab::MOELAB_KERNELS {

template <class T>
void adamw(const AdamWArgs<T>& args) {
  for_each(args.n, [=] MOELAB_HD(Index i) {
    const T g = args.grad[i] * args.grad_scale;
    const T m = args.beta1 * args.first[i] + (T(1) - args.beta1) * g;
    const T v = args.beta2 * args.second[i] + (T(1) - args.beta2) * g * g;
    args.first[i] = m;
    args.second[i] = v;
    args.value[i] = args.keep * args.value[i] -
                    args.step_size * m / (std::sqrt(v * args.second_scale) + args.eps);
  });
}

template void adamw<float>(const AdamWArgs<float>&);
template void adamw<double>(const AdamWArgs<double>&);

}  // namespace moelab::MOELAB_KERNELS
