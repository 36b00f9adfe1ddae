// Scores of a row of logits and their gradient: what every learned router's kernel begins and ends
// with. Legend: l logits, s raw scores, n = s / Σ over all experts (for softmax s = n), E experts.
#pragma once
#include <cmath>

#include "core/ops/math.k.h"
#include "core/ops/router_rule.k.h"

namespace moelab::MOELAB_KERNELS {

constexpr double kTinyScore = 1e-20;  // Megatron's guard of normalising sums

template <class T>
MOELAB_HD inline T raw_score(ScoreKind kind, T logit) {
  if (kind == ScoreKind::relu) return logit > T(0) ? logit : T(0);
  return kind == ScoreKind::sigmoid ? fast_sigmoid(logit) : std::sqrt(fast_softplus(logit));
}
// d raw_score / d logit. Of √softplus it is σ/(2√softplus), which tends to 0 where both underflow.
template <class T>
MOELAB_HD inline T raw_slope(ScoreKind kind, T logit) {
  if (kind == ScoreKind::relu) return logit > T(0) ? T(1) : T(0);
  const T s = fast_sigmoid(logit);
  if (kind == ScoreKind::sigmoid) return s * fast_sigmoid(-logit);
  const T root = std::sqrt(fast_softplus(logit));
  return root > T(0) ? s / (T(2) * root) : T(0);
}

// Writes the raw scores of a row and returns their sum.
template <class T>
MOELAB_HD inline T raw_scores(const Team& team, Index experts, ScoreKind kind, const T* l, T* s) {
  if (kind == ScoreKind::softmax) {
    const T most = team.max(experts, l[0], [=](Index e) { return l[e]; });
    team.each(experts, [=](Index e) { s[e] = fast_exp(l[e] - most); });
    const T inverse = T(1) / team.sum(experts, T(0), [=](Index e) { return s[e]; });
    team.each(experts, [=](Index e) { s[e] *= inverse; });
    return T(1);
  }
  // One loop a kind: a branch inside would keep it from vectorising.
  if (kind == ScoreKind::sigmoid)
    team.each(experts, [=](Index e) { s[e] = fast_sigmoid(l[e]); });
  else if (kind == ScoreKind::relu)
    team.each(experts, [=](Index e) { s[e] = raw_score(ScoreKind::relu, l[e]); });
  else
    team.each(experts, [=](Index e) { s[e] = raw_score(ScoreKind::sqrtsoftplus, l[e]); });
  return team.sum(experts, T(0), [=](Index e) { return s[e]; });
}

// s → n, given the sum of the raw scores.
template <class T>
MOELAB_HD inline void normalize_scores(const Team& team, Index experts, ScoreKind kind, T total,
                                       T* s) {
  if (kind == ScoreKind::softmax) return;
  const T inverse = T(1) / (total + T(kTinyScore));
  team.each(experts, [=](Index e) { s[e] *= inverse; });
}

// dl of the normalised scores alone.
template <class T>
MOELAB_HD inline void scores_gradient(const Team& team, Index experts, ScoreKind kind, const T* l,
                                      const T* n, const T* dn, T* dl, bool accumulate) {
  if (!accumulate) team.each(experts, [=](Index e) { dl[e] = T(0); });
  if (dn == nullptr) return;
  const T dot = team.sum(experts, T(0), [=](Index e) { return n[e] * dn[e]; });
  if (kind == ScoreKind::softmax) {
    team.each(experts, [=](Index e) { dl[e] += n[e] * (dn[e] - dot); });
    return;
  }
  const auto add = [=, &team](const auto& score, const auto& slope) {
    const T inverse = T(1) / team.sum(experts, T(kTinyScore), [=](Index e) { return score(l[e]); });
    team.each(experts, [=](Index e) { dl[e] += (dn[e] - dot) * inverse * slope(l[e]); });
  };
  if (kind == ScoreKind::sigmoid)
    return add([](T x) { return fast_sigmoid(x); },
               [](T x) { return fast_sigmoid(x) * fast_sigmoid(-x); });
  if (kind == ScoreKind::relu)
    return add([](T x) { return raw_score(ScoreKind::relu, x); },
               [](T x) { return raw_slope(ScoreKind::relu, x); });
  add([](T x) { return raw_score(ScoreKind::sqrtsoftplus, x); },
      [](T x) { return raw_slope(ScoreKind::sqrtsoftplus, x); });
}

}  // namespace moelab::MOELAB_KERNELS
