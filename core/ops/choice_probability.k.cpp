#include "core/ops/choice_probability.k.h"

#include <cmath>

#include "core/ops/math.k.h"
#include "core/ops/top_k.k.h"

namespace moelab::MOELAB_KERNELS {
namespace {

constexpr double kRootHalf = 0.70710678118654752440;
constexpr double kInverseRootTwoPi = 0.39894228040143267794;

MOELAB_HD inline bool among(const std::int32_t* best, Index k, Index e) {
  bool found = false;
  for (Index i = 0; i < k; ++i) found |= best[i] == e;
  return found;
}

// One row: where each expert's threshold stands, and its distance from it in deviations.
template <class T>
struct Row {
  const ChoiceProbability<T>& a;
  Index t;
  MOELAB_HD const std::int32_t* best() const { return a.best_TK + t * (a.k + 1); }
  MOELAB_HD T std(Index e) const { return a.std_TE ? a.std_TE[t * a.experts + e] : a.fixed_std; }
  MOELAB_HD std::int32_t threshold(Index e) const {
    return among(best(), a.k, e) ? best()[a.k] : best()[a.k - 1];
  }
  MOELAB_HD T z(Index e) const {
    const Index row = t * a.experts;
    return (a.clean_TE[row + e] - a.noisy_TE[row + threshold(e)]) / std(e);
  }
};

}  // namespace

template <class T>
void choice_probability(const ChoiceProbability<T>& args) {
  for_each_row(args.tokens, 16 * args.experts, [=] MOELAB_HD(Team team, Index t) {
    const Row<T> row{args, t};
    T* p = args.p_TE + t * args.experts;
    if (args.valid_T[t] == 0) {
      team.each(args.experts, [=](Index e) { p[e] = T(0); });
      return;
    }
    if (team.lane() == 0) {
      const T* noisy = args.noisy_TE + t * args.experts;
      TopK<T> top(args.best_TK + t * (args.k + 1), args.k + 1);
      top.scan(0, args.experts, [=](Index e) { return noisy[e]; });
    }
    team.meet();
    for (Index e = team.lane(); e < args.experts; e += team.lanes())
      p[e] = T(0.5) * std::erfc(-row.z(e) * T(kRootHalf));
  });
}

template <class T>
void choice_probability_backward(const ChoiceProbabilityGrad<T>& g) {
  const ChoiceProbability<T> args = g.forward;
  for_each_row(args.tokens, 16 * args.experts, [=] MOELAB_HD(Team team, Index t) {
    const Row<T> row{args, t};
    const Index first = t * args.experts;
    const auto clear = [&](T* to, bool accumulate) {
      if (to && !accumulate) team.each(args.experts, [=](Index e) { to[first + e] = T(0); });
    };
    clear(g.dclean_TE, g.accumulate_clean);
    clear(g.dnoisy_TE, g.accumulate_noisy);
    clear(g.dstd_TE, g.accumulate_std);
    team.meet();
    if (args.valid_T[t] == 0 || team.lane() != 0) return;
    for (Index e = 0; e < args.experts; ++e) {
      const T z = row.z(e);
      const T slope =
          g.dp_TE[first + e] * T(kInverseRootTwoPi) * fast_exp(T(-0.5) * z * z) / row.std(e);
      if (g.dclean_TE) g.dclean_TE[first + e] += slope;
      if (g.dnoisy_TE) g.dnoisy_TE[first + row.threshold(e)] -= slope;
      if (g.dstd_TE) g.dstd_TE[first + e] -= slope * z;
    }
  });
}

template void choice_probability(const ChoiceProbability<float>&);
template void choice_probability(const ChoiceProbability<double>&);
template void choice_probability_backward(const ChoiceProbabilityGrad<float>&);
template void choice_probability_backward(const ChoiceProbabilityGrad<double>&);

}  // namespace moelab::MOELAB_KERNELS
