// Scores and combine weights where each token has a number of experts of its own. T tokens, E
// experts, P pairs, those of token t at [offset[t], offset[t+1]); Real is the router's dtype,
// Weight the run's.
#pragma once
#include "core/backend/for_each.h"
#include "core/ops/router_rule.k.h"

namespace moelab::MOELAB_KERNELS {

// Raw scores of each row, 0 in invalid ones, and their sums.
template <class Real>
void raw_score_rows(Index tokens, Index experts, ScoreKind kind, const Real* logits_TE,
                    const std::uint8_t* valid_T, Real* scores_TE, Real* total_T);

template <class Real, class Weight>
struct RouterPairs {
  Index tokens = 0, experts = 0;
  ScoreKind score = ScoreKind::softmax;
  double scaling = 1.0;
  const Index* offset_T1 = nullptr;
  const std::int32_t* expert_P = nullptr;  // −1: absent
};

// Weights scaling · score of each pair from the raw scores, which become normalised ones in place.
template <class Real, class Weight>
void router_pairs_forward(const RouterPairs<Real, Weight>& pairs, const Real* total_T,
                          Real* scores_TE, Weight* weight_P);

template <class Real, class Weight>
struct RouterPairsGrad {
  const Real* logits_TE = nullptr;
  const Real* scores_TE = nullptr;  // normalised
  const std::uint8_t* valid_T = nullptr;
  const Weight* dweight_P = nullptr;  // null: no gradient arrived
  const Real* dscores_TE = nullptr;   // null likewise
  Real* dlogits_TE = nullptr;
  bool accumulate = false;
};
template <class Real, class Weight>
void router_pairs_backward(const RouterPairs<Real, Weight>& pairs,
                           const RouterPairsGrad<Real, Weight>& grad);

}  // namespace moelab::MOELAB_KERNELS
