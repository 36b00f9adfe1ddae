// What is known of a rank's tokens besides their hidden states. B rows (sequences) of L tokens
// each, T = B·L tokens, token t is row t / L, column t % L. A global micro-batch has rows_global
// rows; this rank holds [first_row, first_row + B).
#pragma once
#include <cstdint>
#include <vector>

#include "core/tensor/tensor.h"

namespace moelab {

struct Tokens {
  Index rows = 0, length = 0;            // B, L
  Index first_row = 0, rows_global = 0;  // of the global micro-batch
  Tensor id_T;                           // i32: vocabulary ids
  Tensor position_T;                     // i32: position within the document (RoPE)
  Tensor document_T;  // i32: document of the row; attention stays inside a document
  Tensor valid_T;     // u8: 0 = padding: not routed, not counted, output exactly 0
  Index count() const { return rows * length; }
  // Row in the global micro-batch · L + column: the key of every random draw and tie.
  Index global_id(Index t) const { return first_row * length + t; }
};

// When and where a forward happens.
enum class Phase : std::uint8_t { train, eval, inference };
struct Moment {
  Phase phase = Phase::train;
  Index step = 0, micro_batch = 0;
  Index micro_batches = 1;  // of the step
  std::uint64_t seed = 0;   // model seed for stochastic components
};

}  // namespace moelab
