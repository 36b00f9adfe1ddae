// See router_select.k.h. Legend: l logits, s raw scores, n = s / Σ over all experts, w weights,
// c scaling. For softmax s = n. Scores are those of router_score.k.h.
#include "core/ops/router_select.k.h"

#include <cmath>

#include "core/ops/router_score.k.h"
#include "core/ops/top_k.k.h"

namespace moelab::MOELAB_KERNELS {
namespace {

// Bit g: group g may be chosen from.
template <class T, class Key>
MOELAB_HD inline std::uint64_t best_groups(const RouterRule& rule, Index group_size,
                                           const Key& key) {
  T score[kMaxExpertGroups];
  std::int32_t best[kMaxExpertGroups];
  const Index top = rule.group_top > 0 ? rule.group_top : rule.k / rule.group_limit;
  for (Index g = 0; g < rule.groups; ++g) {
    TopK<T> members(best, top);
    members.scan(g * group_size, (g + 1) * group_size, key);
    score[g] = T(0);
    for (Index i = 0; i < top; ++i) score[g] += key(best[i]);
  }
  TopK<T> groups(best, rule.group_limit);
  groups.scan(0, rule.groups, [&](Index g) { return score[g]; });
  std::uint64_t allowed = 0;
  for (Index i = 0; i < rule.group_limit; ++i) allowed |= std::uint64_t{1} << best[i];
  return allowed;
}

template <class T, class Key>
MOELAB_HD inline void select_row(const RouterRule& rule, Index experts, const Key& key,
                                 std::int32_t* chosen) {
  TopK<T> top(chosen, rule.k);
  if (rule.groups <= 0 || rule.group_limit >= rule.groups) return top.scan(0, experts, key);
  const Index size = experts / rule.groups;
  const std::uint64_t allowed = best_groups<T>(rule, size, key);
  if (rule.zero_outside)
    return top.scan(0, experts,
                    [&](Index e) { return (allowed >> e / size & 1) != 0 ? key(e) : T(0); });
  for (Index g = 0; g < rule.groups; ++g)
    if ((allowed >> g & 1) != 0) top.scan(g * size, (g + 1) * size, key);
}

// Softmax over the chosen logits needs their maximum and the sum of exponentials.
template <class T>
struct ChosenSoftmax {
  T most, inverse;
  MOELAB_HD ChosenSoftmax(const T* l, const std::int32_t* chosen, Index k)
      : most(T(0)), inverse(T(0)) {
    bool first = true;
    for (Index i = 0; i < k; ++i)
      if (chosen[i] >= 0 && (first || l[chosen[i]] > most)) {
        most = l[chosen[i]];
        first = false;
      }
    T sum = T(0);
    for (Index i = 0; i < k; ++i)
      if (chosen[i] >= 0) sum += fast_exp(l[chosen[i]] - most);
    inverse = sum > T(0) ? T(1) / sum : T(0);
  }
  MOELAB_HD T operator()(T logit) const { return fast_exp(logit - most) * inverse; }
};

// What the chosen scores are divided by, and its derivative by each of them.
template <class T>
struct Divisor {
  T value = T(1), norm = T(0), power = T(1);
  bool moves = false;  // with the scores
  template <class Score>
  MOELAB_HD Divisor(const RouterRule& rule, const std::int32_t* chosen, const Score& score) {
    if (rule.weights != WeightRule::normalized || (rule.k == 1 && !rule.normalize_single)) return;
    power = static_cast<T>(rule.power);
    for (Index i = 0; i < rule.k; ++i)
      if (chosen[i] >= 0)
        norm += power == T(1) ? score(chosen[i]) : std::pow(score(chosen[i]), power);
    if (power != T(1)) norm = std::pow(norm, T(1) / power);
    moves = norm >= static_cast<T>(rule.floor);
    value = (moves ? norm : static_cast<T>(rule.floor)) + static_cast<T>(rule.epsilon);
  }
  MOELAB_HD T slope(T score) const {
    if (!moves) return T(0);
    if (power == T(1)) return T(1);
    return norm > T(0) ? std::pow(score / norm, power - T(1)) : T(0);
  }
};

template <class T, class W>
MOELAB_HD inline void row_weights(const RouterRule& rule, const T* l, const T* s,
                                  const std::int32_t* chosen, W* w) {
  const T c = static_cast<T>(rule.scaling);
  if (rule.weights == WeightRule::softmax_chosen) {
    const ChosenSoftmax<T> softmax(l, chosen, rule.k);
    for (Index i = 0; i < rule.k; ++i)
      w[i] = chosen[i] < 0 ? W(0) : static_cast<W>(c * softmax(l[chosen[i]]));
    return;
  }
  const T sum = Divisor<T>(rule, chosen, [=](std::int32_t e) { return s[e]; }).value;
  for (Index i = 0; i < rule.k; ++i)
    w[i] = chosen[i] < 0 ? W(0) : static_cast<W>(c * (s[chosen[i]] / sum));
}

template <class T, class W>
MOELAB_HD inline void choose(const RouterSelect<T, W>& a, Index t, const T* key,
                             std::int32_t* chosen) {
  const T* bias = a.bias_E;
  if (a.forced_P != nullptr) {
    for (Index i = 0; i < a.rule.k; ++i) chosen[i] = a.forced_P[t * a.rule.k + i];
  } else if (bias != nullptr) {
    select_row<T>(
        a.rule, a.experts, [=](Index e) { return key[e] + bias[e]; }, chosen);
  } else {
    select_row<T>(
        a.rule, a.experts, [=](Index e) { return key[e]; }, chosen);
  }
}

template <class T, class W>
MOELAB_HD inline void forward_row(const RouterSelect<T, W>& a, const Team& team, Index t) {
  const RouterRule& rule = a.rule;
  const T* l = a.logits_TE + t * a.experts;
  T* s = a.scores_TE + t * a.experts;
  std::int32_t* chosen = a.expert_P + t * rule.k;
  W* w = a.weight_P + t * rule.k;
  if (a.valid_T[t] == 0) {
    team.each(a.experts, [=](Index e) { s[e] = T(0); });
    team.each(rule.k, [=](Index i) { chosen[i] = -1; });
    team.each(rule.k, [=](Index i) { w[i] = W(0); });
    return;
  }
  const T total = raw_scores(team, a.experts, rule.score, l, s);
  if (team.lane() == 0) {
    choose(a, t, rule.key_is_logit ? l : s, chosen);
    row_weights(rule, l, s, chosen, w);
  }
  team.meet();
  normalize_scores(team, a.experts, rule.score, total, s);
}

// Adds dl of the weights.
template <class T, class W>
MOELAB_HD inline void weights_gradient(const Team& team, const RouterRule& rule, Index experts,
                                       const T* l, const T* n, const std::int32_t* chosen,
                                       const W* dw, T* dl) {
  const T c = static_cast<T>(rule.scaling);
  const Index k = rule.k;
  if (rule.weights == WeightRule::softmax_chosen) {
    const ChosenSoftmax<T> softmax(l, chosen, k);
    T dot = T(0);
    for (Index i = 0; i < k; ++i)
      if (chosen[i] >= 0) dot += static_cast<T>(dw[i]) * softmax(l[chosen[i]]);
    for (Index i = 0; i < k; ++i)
      if (chosen[i] >= 0 && team.lane() == 0)
        dl[chosen[i]] += c * softmax(l[chosen[i]]) * (static_cast<T>(dw[i]) - dot);
    return;
  }
  const bool softmax = rule.score == ScoreKind::softmax;
  const auto score = [=](std::int32_t e) { return softmax ? n[e] : raw_score(rule.score, l[e]); };
  const Divisor<T> divisor(rule, chosen, score);
  T dot = T(0);
  if (divisor.moves) {
    for (Index i = 0; i < k; ++i)
      if (chosen[i] >= 0) dot += static_cast<T>(dw[i]) * score(chosen[i]);
    dot /= divisor.value;
  }
  T through = T(0);  // Σ ds·s: what softmax takes from every expert
  for (Index i = 0; i < k; ++i) {
    if (chosen[i] < 0) continue;
    const T ds =
        c * (static_cast<T>(dw[i]) - dot * divisor.slope(score(chosen[i]))) / divisor.value;
    const T slope = softmax ? n[chosen[i]] : raw_slope(rule.score, l[chosen[i]]);
    if (team.lane() == 0) dl[chosen[i]] += ds * slope;
    if (softmax) through += ds * slope;
  }
  team.meet();
  if (softmax) team.each(experts, [=](Index e) { dl[e] -= through * n[e]; });
}

template <class T, class W>
MOELAB_HD inline void backward_row(const RouterSelectGrad<T, W>& a, const Team& team, Index t) {
  const T* l = a.logits_TE + t * a.experts;
  const T* n = a.scores_TE + t * a.experts;
  T* dl = a.dlogits_TE + t * a.experts;
  const bool valid = a.valid_T[t] != 0;
  const T* dn = a.dscores_TE != nullptr && valid ? a.dscores_TE + t * a.experts : nullptr;
  scores_gradient(team, a.experts, a.rule.score, l, n, dn, dl, a.accumulate);
  if (a.dweight_P != nullptr && valid)
    weights_gradient(team, a.rule, a.experts, l, n, a.expert_P + t * a.rule.k,
                     a.dweight_P + t * a.rule.k, dl);
}

}  // namespace

template <class Real, class Weight>
void router_select_forward(const RouterSelect<Real, Weight>& args) {
  for_each_row(args.tokens, 4 * args.experts,
               [=] MOELAB_HD(Team team, Index t) { forward_row(args, team, t); });
}

template <class Real, class Weight>
void router_select_backward(const RouterSelectGrad<Real, Weight>& args) {
  for_each_row(args.tokens, 4 * args.experts,
               [=] MOELAB_HD(Team team, Index t) { backward_row(args, team, t); });
}

template <class Real>
void top_k_rows(Index rows, Index width, Index k, const Real* values, const std::uint8_t* valid,
                std::int32_t* ids_P) {
  for_each_row(rows, width, [=] MOELAB_HD(Team team, Index r) {
    if (team.lane() != 0) return;
    std::int32_t* ids = ids_P + r * k;
    const Real* row = values + r * width;
    if (valid[r] == 0) {
      for (Index i = 0; i < k; ++i) ids[i] = -1;
      return;
    }
    TopK<Real> top(ids, k);
    top.scan(0, width, [=](Index i) { return row[i]; });
  });
}

template void router_select_forward(const RouterSelect<float, float>&);
template void router_select_forward(const RouterSelect<float, double>&);
template void router_select_forward(const RouterSelect<double, float>&);
template void router_select_forward(const RouterSelect<double, double>&);
template void router_select_backward(const RouterSelectGrad<float, float>&);
template void router_select_backward(const RouterSelectGrad<float, double>&);
template void router_select_backward(const RouterSelectGrad<double, float>&);
template void router_select_backward(const RouterSelectGrad<double, double>&);
template void top_k_rows(Index, Index, Index, const float*, const std::uint8_t*, std::int32_t*);
template void top_k_rows(Index, Index, Index, const double*, const std::uint8_t*, std::int32_t*);

}  // namespace moelab::MOELAB_KERNELS
