// See router_pairs.k.h; the scores are those of router_score.k.h.
#include "core/ops/router_pairs.k.h"

#include "core/ops/router_score.k.h"

namespace moelab::MOELAB_KERNELS {
namespace {

// Adds dl of a row's weights; l, n and dl are the row's.
template <class T, class W>
MOELAB_HD inline void add_weights_gradient(const Team& team, const RouterPairs<T, W>& a, Index t,
                                           const T* l, const T* n, const W* dw_P, T* dl) {
  const T c = static_cast<T>(a.scaling);
  const bool softmax = a.score == ScoreKind::softmax;
  T through = T(0);  // Σ dw·s: what softmax takes from every expert
  for (Index p = a.offset_T1[t]; p < a.offset_T1[t + 1]; ++p) {
    const std::int32_t e = a.expert_P[p];
    if (e < 0) continue;
    const T step = c * static_cast<T>(dw_P[p]) * (softmax ? n[e] : raw_slope(a.score, l[e]));
    if (team.lane() == 0) dl[e] += step;
    through += step;
  }
  team.meet();
  if (softmax) team.each(a.experts, [=](Index e) { dl[e] -= through * n[e]; });
}

}  // namespace

template <class Real>
void raw_score_rows(Index tokens, Index experts, ScoreKind kind, const Real* logits_TE,
                    const std::uint8_t* valid_T, Real* scores_TE, Real* total_T) {
  for_each_row(tokens, 4 * experts, [=] MOELAB_HD(Team team, Index t) {
    Real* s = scores_TE + t * experts;
    Real total = Real(0);
    if (valid_T[t] != 0)
      total = raw_scores(team, experts, kind, logits_TE + t * experts, s);
    else
      team.each(experts, [=](Index e) { s[e] = Real(0); });
    if (team.lane() == 0) total_T[t] = total;
  });
}

template <class Real, class Weight>
void router_pairs_forward(const RouterPairs<Real, Weight>& pairs, const Real* total_T,
                          Real* scores_TE, Weight* weight_P) {
  const Real c = static_cast<Real>(pairs.scaling);
  for_each_row(pairs.tokens, 2 * pairs.experts, [=] MOELAB_HD(Team team, Index t) {
    Real* s = scores_TE + t * pairs.experts;
    const Index begin = pairs.offset_T1[t];
    const std::int32_t* expert = pairs.expert_P + begin;
    Weight* w = weight_P + begin;
    team.each(pairs.offset_T1[t + 1] - begin, [=](Index i) {
      w[i] = expert[i] < 0 ? Weight(0) : static_cast<Weight>(c * s[expert[i]]);
    });
    team.meet();
    normalize_scores(team, pairs.experts, pairs.score, total_T[t], s);
  });
}

template <class Real, class Weight>
void router_pairs_backward(const RouterPairs<Real, Weight>& pairs,
                           const RouterPairsGrad<Real, Weight>& grad) {
  for_each_row(pairs.tokens, 4 * pairs.experts, [=] MOELAB_HD(Team team, Index t) {
    const Index row = t * pairs.experts;
    const Real* l = grad.logits_TE + row;
    const Real* n = grad.scores_TE + row;
    Real* dl = grad.dlogits_TE + row;
    const bool valid = grad.valid_T[t] != 0;
    const Real* dn = grad.dscores_TE != nullptr && valid ? grad.dscores_TE + row : nullptr;
    scores_gradient(team, pairs.experts, pairs.score, l, n, dn, dl, grad.accumulate);
    if (grad.dweight_P != nullptr && valid)
      add_weights_gradient(team, pairs, t, l, n, grad.dweight_P, dl);
  });
}

template void raw_score_rows(Index, Index, ScoreKind, const float*, const std::uint8_t*, float*,
                             float*);
template void raw_score_rows(Index, Index, ScoreKind, const double*, const std::uint8_t*, double*,
                             double*);
template void router_pairs_forward(const RouterPairs<float, float>&, const float*, float*, float*);
template void router_pairs_forward(const RouterPairs<float, double>&, const float*, float*,
                                   double*);
template void router_pairs_forward(const RouterPairs<double, float>&, const double*, double*,
                                   float*);
template void router_pairs_forward(const RouterPairs<double, double>&, const double*, double*,
                                   double*);
template void router_pairs_backward(const RouterPairs<float, float>&,
                                    const RouterPairsGrad<float, float>&);
template void router_pairs_backward(const RouterPairs<float, double>&,
                                    const RouterPairsGrad<float, double>&);
template void router_pairs_backward(const RouterPairs<double, float>&,
                                    const RouterPairsGrad<double, float>&);
template void router_pairs_backward(const RouterPairs<double, double>&,
                                    const RouterPairsGrad<double, double>&);

}  // namespace moelab::MOELAB_KERNELS
