#include "core/ops/cross_entropy.k.h"

#include "core/ops/math.k.h"

namespace moelab::MOELAB_KERNELS {

template <class T>
void cross_entropy_forward(Index rows, Index vocabulary, const T* logits_TV,
                           const std::int32_t* target_T, double* loss_T, T* lse_T) {
  for_each_row(rows, 4 * vocabulary, [=] MOELAB_HD(Team team, Index t) {
    const T* x = logits_TV + t * vocabulary;
    const Index target = target_T[t];
    double loss = 0, lse = 0;
    if (target >= 0) {
      const T most = team.max(vocabulary, x[0], [=](Index i) { return x[i]; });
      const T sum = team.sum(vocabulary, T(0), [=](Index i) { return fast_exp(x[i] - most); });
      lse = static_cast<double>(most) + std::log(static_cast<double>(sum));
      loss = lse - static_cast<double>(x[target]);
    }
    if (Team::lane() == 0) {
      loss_T[t] = loss;
      if (lse_T) lse_T[t] = static_cast<T>(lse);
    }
  });
}

template <class T>
void cross_entropy_backward(Index rows, Index vocabulary, const T* logits_TV,
                            const std::int32_t* target_T, const T* lse_T, T scale, bool accumulate,
                            T* d_TV) {
  for_each_row(rows, 4 * vocabulary, [=] MOELAB_HD(Team team, Index t) {
    const T* x = logits_TV + t * vocabulary;
    T* d = d_TV + t * vocabulary;
    const Index target = target_T[t];
    const T lse = lse_T[t];
    if (target < 0) {
      if (!accumulate) team.each(vocabulary, [=](Index i) { d[i] = T(0); });
    } else if (accumulate) {
      team.each(vocabulary, [=](Index i) {
        d[i] += scale * (fast_exp(x[i] - lse) - (i == target ? T(1) : T(0)));
      });
    } else {
      team.each(vocabulary, [=](Index i) {
        d[i] = scale * (fast_exp(x[i] - lse) - (i == target ? T(1) : T(0)));
      });
    }
  });
}

template void cross_entropy_forward(Index, Index, const float*, const std::int32_t*, double*,
                                    float*);
template void cross_entropy_forward(Index, Index, const double*, const std::int32_t*, double*,
                                    double*);
template void cross_entropy_backward(Index, Index, const float*, const std::int32_t*, const float*,
                                     float, bool, float*);
template void cross_entropy_backward(Index, Index, const double*, const std::int32_t*,
                                     const double*, double, bool, double*);

}  // namespace moelab::MOELAB_KERNELS
