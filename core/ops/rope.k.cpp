#include "core/ops/rope.k.h"

#include <cmath>

namespace moelab::MOELAB_KERNELS {

template <class T>
void rope_table(Index rows, Index head_dim, double theta, const std::int32_t* position_P,
                T* table_PD) {
  const Index half = head_dim / 2;
  for_each_row(half, rows * 8, [=] MOELAB_HD(Team team, Index j) {
    const double frequency =
        std::pow(theta, -2.0 * static_cast<double>(j) / static_cast<double>(head_dim));
    team.each(rows, [=](Index p) {
      const double angle = static_cast<double>(position_P ? position_P[p] : p) * frequency;
      table_PD[p * head_dim + j] = static_cast<T>(std::cos(angle));
      table_PD[p * head_dim + half + j] = static_cast<T>(std::sin(angle));
    });
  });
}

template <class T>
void rope_turn(Index tokens, Index heads, Index head_dim, const T* x, const T* table_PD,
               const std::int32_t* table_row_T, T direction, T* y) {
  const Index half = head_dim / 2, width = heads * head_dim;
  for_each_row(tokens, width, [=] MOELAB_HD(Team team, Index t) {
    const T* cosine = table_PD + (table_row_T ? table_row_T[t] : t) * head_dim;
    const T* sine = cosine + half;
    for (Index n = 0; n < heads; ++n) {
      const T* low = x + t * width + n * head_dim;
      const T* high = low + half;
      T* out_low = y + t * width + n * head_dim;
      T* out_high = out_low + half;
      team.each(half, [=](Index j) {
        const T s = direction * sine[j], l = low[j], h = high[j];
        out_low[j] = l * cosine[j] - h * s;
        out_high[j] = h * cosine[j] + l * s;
      });
    }
  });
}

template void rope_table<float>(Index, Index, double, const std::int32_t*, float*);
template void rope_table<double>(Index, Index, double, const std::int32_t*, double*);
template void rope_turn<float>(Index, Index, Index, const float*, const float*, const std::int32_t*,
                               float, float*);
template void rope_turn<double>(Index, Index, Index, const double*, const double*,
                                const std::int32_t*, double, double*);

}  // namespace moelab::MOELAB_KERNELS
