// k rounds of choosing one expert a token among those near the best (see functions.h). Each round
// weighs its choice by the softmax over the experts near the best of those left. T tokens, E
// experts, P = T·k pair slots.
#pragma once
#include "core/backend/for_each.h"

namespace moelab::MOELAB_KERNELS {

template <class Real, class Weight>
struct SparseMixer {
  Index tokens = 0, experts = 0, k = 0;
  Real band = 0, scaling = 1;
  const Real* logits_TE = nullptr;
  const Real* bias_E = nullptr;  // null: none
  const std::uint8_t* valid_T = nullptr;
  const std::int32_t* forced_P = nullptr;  // null: choose
  const double* gumbel_PE = nullptr;       // null: the best, not a sample
  const double* uniform_P = nullptr;       // null: every weight at full size
  std::int32_t* expert_P = nullptr;        // out; −1 where absent
  Weight* weight_P = nullptr;              // out
};
template <class Real, class Weight>
void sparse_mixer_forward(const SparseMixer<Real, Weight>& args);

template <class Real, class Weight>
struct SparseMixerGrad {
  Index tokens = 0, experts = 0, k = 0;
  Real band = 0, scaling = 1;
  const Real* logits_TE = nullptr;
  const std::int32_t* expert_P = nullptr;
  const Weight* dweight_P = nullptr;
  Real* dlogits_TE = nullptr;
  bool accumulate = false;
};
template <class Real, class Weight>
void sparse_mixer_backward(const SparseMixerGrad<Real, Weight>& args);

}  // namespace moelab::MOELAB_KERNELS
