// How likely a noisy top-k chooses each expert, and the gradient, a row at a time. T tokens, E
// experts, k choices; a row's threshold for an expert is the k-th largest noisy logit of the
// others: that of its k + 1 largest at place k for the k chosen, at place k − 1 for the rest.
#pragma once
#include "core/backend/for_each.h"

namespace moelab::MOELAB_KERNELS {

template <class T>
struct ChoiceProbability {
  Index tokens = 0, experts = 0, k = 0;
  const T* clean_TE = nullptr;
  const T* noisy_TE = nullptr;
  const T* std_TE = nullptr;  // null: fixed_std
  T fixed_std = T(0);
  const std::uint8_t* valid_T = nullptr;
  std::int32_t* best_TK = nullptr;  // [T, k + 1], written by forward, best first
  T* p_TE = nullptr;
};
template <class T>
void choice_probability(const ChoiceProbability<T>& args);

// The slope of P by the clean logits, all else following: dthreshold = −it, dstd = −z · it.
template <class T>
struct ChoiceProbabilityGrad {
  ChoiceProbability<T> forward;
  const T* dp_TE = nullptr;
  // Null where no gradient is wanted.
  T *dclean_TE = nullptr, *dnoisy_TE = nullptr, *dstd_TE = nullptr;
  bool accumulate_clean = false, accumulate_noisy = false, accumulate_std = false;
};
template <class T>
void choice_probability_backward(const ChoiceProbabilityGrad<T>& args);

}  // namespace moelab::MOELAB_KERNELS
