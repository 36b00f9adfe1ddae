// RMSNorm and LayerNorm over rows. T rows of width D; r_T = 1/√(…) of each row is kept for
// backward. With `accumulate` a gradient is added to, else written.
#pragma once
#include "core/backend/for_each.h"

namespace moelab::MOELAB_KERNELS {

template <class T>
void rms_norm_forward(Index rows, Index width, const T* x_TD, const T* w_D, T eps, T* y_TD, T* r_T);
// One pass for both gradients. partial_CD, of rms_norm_chunks(rows) rows, gets dw of each chunk of
// rows: dw is their sum. dx and partial may be null: not wanted.
constexpr Index kRmsNormChunk = 64;
constexpr Index rms_norm_chunks(Index rows) { return (rows + kRmsNormChunk - 1) / kRmsNormChunk; }
template <class T>
void rms_norm_backward(Index rows, Index width, const T* dy_TD, const T* x_TD, const T* w_D,
                       const T* r_T, bool accumulate, T* dx_TD, T* partial_CD);

template <class T>
void layer_norm_forward(Index rows, Index width, const T* x_TD, const T* w_D, const T* b_D, T eps,
                        T* y_TD, T* mean_T, T* r_T);  // b may be null
template <class T>
void layer_norm_backward_input(Index rows, Index width, const T* dy_TD, const T* x_TD, const T* w_D,
                               const T* mean_T, const T* r_T, bool accumulate, T* dx_TD);

// dw_D = Σ_t dy · (x − mean) · r, rows in order; mean_T may be null for 0.
template <class T>
void norm_backward_weight(Index rows, Index width, const T* dy_TD, const T* x_TD, const T* mean_T,
                          const T* r_T, bool accumulate, T* dw_D);

}  // namespace moelab::MOELAB_KERNELS
