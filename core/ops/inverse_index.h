// The rows that refer to each target, in row order: what turns a scatter-sum into sums of fixed
// order without atomics. R rows, S targets.
#pragma once
#include <cstdint>

#include "core/backend/backend.h"

namespace moelab {

struct InverseIndex {
  Tensor offset_S1;  // i64: rows of target s are row_R[offset[s] .. offset[s+1])
  Tensor row_R;      // i32, ascending within a target; rows without a target are left out
};

// target_R[r] in [0, targets), or −1 for none.
InverseIndex invert(const Backend& backend, Index targets, const std::int32_t* target_R,
                    Index rows);

}  // namespace moelab
