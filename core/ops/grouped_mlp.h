// The feed-forward network of experts (and of dense layers: one group, identity rows) as one
// operator: y_r = down_e(w_r · act(up_e(x_r))), rows sorted by expert. S source rows, R rows, e
// experts, H hidden, F width, G = F or 2F columns of the up projection.
#pragma once
#include <cstdint>
#include <string>

#include "core/backend/backend.h"
#include "core/ops/activation.h"

namespace moelab {

// Which implementation runs; automatic: the fastest that the CPU and the dtype have.
enum class MlpVariant : std::uint8_t { automatic, library, packed };

template <class T>
struct GroupedMlpArgs {
  Index groups = 0, rows = 0, hidden = 0, width = 0, up_width = 0;  // e, R, H, F, G
  Index sources = 0;                                                // S
  const Index* offset_e1 = nullptr;
  bool permuted = true;                 // false: row r is source row r, and row_R is not read
  const std::int32_t* row_R = nullptr;  // source row of each row, −1 a zero row
  const T* source_SH = nullptr;
  const T* weight_R = nullptr;  // null: 1
  const T *up_eGH = nullptr, *down_eHF = nullptr;
  const T *up_bias_eG = nullptr, *down_bias_eH = nullptr;  // may be null
  const Activation* activation = nullptr;
  MlpVariant variant = MlpVariant::automatic;  // packed: REQUIRES f32 and a CPU that has it
};

// Writes y_RH, and h_RG (the up projection's output) unless it is null.
template <class T>
void grouped_mlp_forward(const Backend& backend, const GroupedMlpArgs<T>& args, T* h_RG, T* y_RH);

template <class T>
struct GradInto {  // where one gradient goes; null: not wanted
  T* into = nullptr;
  T beta = T(0);  // 0: written, 1: added to
};
template <class T>
struct GroupedMlpGrads {
  GradInto<T> source_SH, weight_R, up_eGH, down_eHF, up_bias_eG, down_bias_eH;
};

// h_RG is overwritten with its gradient. Experts without rows get exact zeros (beta 0).
template <class T>
void grouped_mlp_backward(const Backend& backend, const GroupedMlpArgs<T>& args, T* h_RG,
                          const T* dy_RH, const GroupedMlpGrads<T>& grads);

// What automatic is for f32, and why: "packed (AVX-512)", for doctor.
std::string grouped_mlp_variant();
bool has_packed_mlp();

}  // namespace moelab
