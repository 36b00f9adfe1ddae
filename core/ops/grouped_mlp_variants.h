// The implementations of grouped_mlp behind its one interface, and what they share.
#pragma once
#include "core/ops/grouped_mlp.h"

namespace moelab {

// Any CPU, f32 and f64: one call of the GEMM library a tile of rows.
template <class T>
void library_mlp_forward(const Backend& backend, const GroupedMlpArgs<T>& args, T* h_RG, T* y_RH);
template <class T>
void library_mlp_backward(const Backend& backend, const GroupedMlpArgs<T>& args, T* h_RG,
                          const T* dy_RH, const GroupedMlpGrads<T>& grads);

// CPUs with register kernels of ours (tile_kernels.h), f32: rows are gathered while they are
// packed, the activation and its gradient are computed from a tile in the nearest cache.
void packed_mlp_forward(const Backend& backend, const GroupedMlpArgs<float>& args, float* h_RG,
                        float* y_RH);
void packed_mlp_backward(const Backend& backend, const GroupedMlpArgs<float>& args, float* h_RG,
                         const float* dy_RH, const GroupedMlpGrads<float>& grads);

// Columns [begin, end) of the sum of rows: db_N (+)= Σ_r weight_r · dy_RN[r], rows in order.
template <class T>
void bias_gradient(Index rows, Index width, Index begin, Index end, const T* dy, const T* weight,
                   const GradInto<T>& grad) {
  if (grad.beta == T(0)) std::fill(grad.into + begin, grad.into + end, T(0));
  for (Index r = 0; r < rows; ++r) {
    const T w = weight ? weight[r] : T(1);
    for (Index j = begin; j < end; ++j) grad.into[j] += w * dy[r * width + j];
  }
}

// The source rows' gradient from that of the permuted rows.
template <class T>
void sum_source_rows(const Backend& backend, const GroupedMlpArgs<T>& args, const T* dx_RH,
                     const GradInto<T>& grad);

}  // namespace moelab
