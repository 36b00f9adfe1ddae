#include "core/ops/sparse_mixer.k.h"

#include <cmath>

#include "core/ops/math.k.h"

namespace moelab::MOELAB_KERNELS {
namespace {

constexpr double kKeepFull = 0.75;  // of Heun's third-order method (Liu et al. 2023)
constexpr double kReduced = 1.0 / 3.0;

// The experts that one round may choose: those that earlier rounds left and that lie near the best.
template <class T>
class Round {
 public:
  MOELAB_HD Round(const T* l, Index experts, const std::int32_t* taken, Index count, T band)
      : l_(l), taken_(taken), count_(count), band_(band) {
    for (Index e = 0; e < experts; ++e)
      if (!gone(e) && (best_ < 0 || l[e] > l[best_])) best_ = e;
  }
  MOELAB_HD Index best() const { return best_; }
  MOELAB_HD bool near(Index e) const {
    if (gone(e)) return false;
    const T most = l_[best_], size = l_[e] < T(0) ? -l_[e] : l_[e];
    return !((most - l_[e]) / (size > most ? size : most) > band_);  // 0/0 is near
  }
  // exp relative to the best; 0 for experts out of reach. `chosen` counts even if it was forced.
  MOELAB_HD T mass(Index e, Index chosen) const {
    return e == chosen || near(e) ? fast_exp(l_[e] - l_[best_]) : T(0);
  }
  MOELAB_HD T total(Index experts, Index chosen) const {
    T sum = T(0);
    for (Index e = 0; e < experts; ++e) sum += mass(e, chosen);
    return sum;
  }

 private:
  MOELAB_HD bool gone(Index e) const {
    for (Index i = 0; i < count_; ++i)
      if (taken_[i] == e) return true;
    return false;
  }
  const T* l_;
  const std::int32_t* taken_;
  Index count_, best_ = -1;
  T band_;
};

template <class T, class W>
MOELAB_HD inline std::int32_t choose(const SparseMixer<T, W>& a, const Round<T>& round, Index p,
                                     const T* l) {
  if (a.forced_P != nullptr) return a.forced_P[p];
  const double* gumbel = a.gumbel_PE != nullptr ? a.gumbel_PE + p * a.experts : nullptr;
  Index chosen = -1;
  T best = T(0);
  for (Index e = 0; e < a.experts; ++e) {
    if (!round.near(e)) continue;
    T key = l[e];
    if (a.bias_E != nullptr) key += a.bias_E[e];
    if (gumbel != nullptr) key += static_cast<T>(gumbel[e]);
    if (chosen >= 0 && !(key > best)) continue;
    chosen = e;
    best = key;
  }
  return static_cast<std::int32_t>(chosen);
}

template <class T, class W>
MOELAB_HD inline void forward_row(const SparseMixer<T, W>& a, Index t) {
  const T* l = a.logits_TE + t * a.experts;
  std::int32_t* chosen = a.expert_P + t * a.k;
  for (Index r = 0; r < a.k; ++r) {
    const Index p = t * a.k + r;
    chosen[r] = -1;
    a.weight_P[p] = W(0);
    if (a.valid_T[t] == 0) continue;
    const Round<T> round(l, a.experts, chosen, r, a.band);
    chosen[r] = choose(a, round, p, l);
    if (chosen[r] < 0) continue;
    const T share = round.mass(chosen[r], chosen[r]) / round.total(a.experts, chosen[r]);
    const bool full =
        a.uniform_P == nullptr || chosen[r] == round.best() || a.uniform_P[p] > kKeepFull;
    a.weight_P[p] = static_cast<W>(a.scaling * share * (full ? T(1) : T(kReduced)));
  }
}

template <class T, class W>
MOELAB_HD inline void backward_row(const SparseMixerGrad<T, W>& a, Index t) {
  const T* l = a.logits_TE + t * a.experts;
  const std::int32_t* chosen = a.expert_P + t * a.k;
  T* dl = a.dlogits_TE + t * a.experts;
  for (Index e = 0; e < a.experts && !a.accumulate; ++e) dl[e] = T(0);
  for (Index r = 0; r < a.k; ++r) {
    const Index id = chosen[r];
    if (id < 0) continue;
    const Round<T> round(l, a.experts, chosen, r, a.band);
    const T inverse = T(1) / round.total(a.experts, id);
    const T share = round.mass(id, id) * inverse;
    const T g = a.scaling * static_cast<T>(a.dweight_P[t * a.k + r]) * share;
    for (Index e = 0; e < a.experts; ++e)
      dl[e] += g * ((e == id ? T(1) : T(0)) - round.mass(e, id) * inverse);
  }
}

}  // namespace

template <class Real, class Weight>
void sparse_mixer_forward(const SparseMixer<Real, Weight>& args) {
  for_each_row(args.tokens, 8 * args.k * args.experts, [=] MOELAB_HD(Team team, Index t) {
    if (team.lane() == 0) forward_row(args, t);
  });
}

template <class Real, class Weight>
void sparse_mixer_backward(const SparseMixerGrad<Real, Weight>& args) {
  for_each_row(args.tokens, 8 * args.k * args.experts, [=] MOELAB_HD(Team team, Index t) {
    if (team.lane() == 0) backward_row(args, t);
  });
}

template void sparse_mixer_forward(const SparseMixer<float, float>&);
template void sparse_mixer_forward(const SparseMixer<float, double>&);
template void sparse_mixer_forward(const SparseMixer<double, float>&);
template void sparse_mixer_forward(const SparseMixer<double, double>&);
template void sparse_mixer_backward(const SparseMixerGrad<float, float>&);
template void sparse_mixer_backward(const SparseMixerGrad<float, double>&);
template void sparse_mixer_backward(const SparseMixerGrad<double, float>&);
template void sparse_mixer_backward(const SparseMixerGrad<double, double>&);

}  // namespace moelab::MOELAB_KERNELS
