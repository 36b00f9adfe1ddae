// The update of AdamW in one pass over a parameter (Loshchilov & Hutter 2019, decoupled decay).
#pragma once
#include "core/backend/for_each.h"

namespace moelab::MOELAB_KERNELS {

template <class T>
struct AdamWArgs {
  Index n = 0;
  T *value = nullptr, *first = nullptr, *second = nullptr;  // p, m, v
  const T* grad = nullptr;
  T grad_scale = 1;                   // clipping
  T beta1 = 0, beta2 = 0;             // m ← β₁m + (1−β₁)g, v ← β₂v + (1−β₂)g²
  T step_size = 0, second_scale = 0;  // lr / (1−β₁ᵗ), 1 / (1−β₂ᵗ)
  T keep = 1, eps = 0;  // p ← keep·p − step_size·m / (sqrt(v·second_scale) + eps)
};
template <class T>
void adamw(const AdamWArgs<T>& args);

}  // namespace moelab::MOELAB_KERNELS
