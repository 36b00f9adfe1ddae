#include "core/ops/pair_weights.k.h"

namespace moelab::MOELAB_KERNELS {
namespace {

template <class T>
MOELAB_HD inline T kept_sum(Index begin, Index end, const std::uint8_t* kept, const T* w) {
  T sum = T(0);
  for (Index p = begin; p < end; ++p) sum += kept[p] != 0 ? w[p] : T(0);
  return sum;
}

}  // namespace

template <class T>
void gather_slots(Index rows, const Index* slot_R, const T* w_P, T* y_R) {
  for_each(rows, [=] MOELAB_HD(Index r) { y_R[r] = slot_R[r] < 0 ? T(0) : w_P[slot_R[r]]; });
}

template <class T>
void scatter_slots(Index rows, const Index* slot_R, const T* dy_R, T* dw_P) {
  for_each_row(rows, 1, [=] MOELAB_HD(Team team, Index r) {
    if (team.lane() == 0 && slot_R[r] >= 0) dw_P[slot_R[r]] += dy_R[r];
  });
}

template <class T>
void renormalize_rows(Index tokens, const Index* offset_T1, const std::uint8_t* kept_P, T floor,
                      const T* w_P, T* y_P) {
  for_each_row(tokens, 4, [=] MOELAB_HD(Team team, Index t) {
    const Index begin = offset_T1[t], end = offset_T1[t + 1];
    const T sum = kept_sum(begin, end, kept_P, w_P);
    const T below = sum < floor ? floor : sum;
    team.each(end - begin, [=](Index i) {
      const Index p = begin + i;
      y_P[p] = kept_P[p] != 0 && sum != T(0) ? w_P[p] / below : T(0);
    });
  });
}

template <class T>
void renormalize_rows_backward(Index tokens, const Index* offset_T1, const std::uint8_t* kept_P,
                               T floor, const T* w_P, const T* dy_P, T* dw_P, bool accumulate) {
  for_each_row(tokens, 4, [=] MOELAB_HD(Team team, Index t) {
    const Index begin = offset_T1[t], end = offset_T1[t + 1];
    const T sum = kept_sum(begin, end, kept_P, w_P);
    const T below = sum < floor ? floor : sum;
    T dot = T(0);
    for (Index p = begin; p < end; ++p)
      dot += kept_P[p] != 0 && sum != T(0) && sum == below ? dy_P[p] * (w_P[p] / sum) : T(0);
    team.each(end - begin, [=](Index i) {
      const Index p = begin + i;
      const T dw = kept_P[p] != 0 && sum != T(0) ? (dy_P[p] - dot) / below : T(0);
      dw_P[p] = accumulate ? dw_P[p] + dw : dw;
    });
  });
}

template void gather_slots(Index, const Index*, const float*, float*);
template void gather_slots(Index, const Index*, const double*, double*);
template void scatter_slots(Index, const Index*, const float*, float*);
template void scatter_slots(Index, const Index*, const double*, double*);
template void renormalize_rows(Index, const Index*, const std::uint8_t*, float, const float*,
                               float*);
template void renormalize_rows(Index, const Index*, const std::uint8_t*, double, const double*,
                               double*);
template void renormalize_rows_backward(Index, const Index*, const std::uint8_t*, float,
                                        const float*, const float*, float*, bool);
template void renormalize_rows_backward(Index, const Index*, const std::uint8_t*, double,
                                        const double*, const double*, double*, bool);

}  // namespace moelab::MOELAB_KERNELS
