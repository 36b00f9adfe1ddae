// Softmax cross-entropy over rows. T rows, V vocabulary; rows with a negative target count as 0.
#pragma once
#include "core/backend/for_each.h"

namespace moelab::MOELAB_KERNELS {

// loss_T = lse − logit of the target (f64), lse_T = log Σ exp(logits) for backward (may be null).
template <class T>
void cross_entropy_forward(Index rows, Index vocabulary, const T* logits_TV,
                           const std::int32_t* target_T, double* loss_T, T* lse_T);
// d_TV = scale · (softmax − one-hot), or += with accumulate; d may be the logits themselves.
template <class T>
void cross_entropy_backward(Index rows, Index vocabulary, const T* logits_TV,
                            const std::int32_t* target_T, const T* lse_T, T scale, bool accumulate,
                            T* d_TV);

}  // namespace moelab::MOELAB_KERNELS
