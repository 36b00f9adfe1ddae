#include "core/ops/inverse_index.h"

namespace moelab {

InverseIndex invert(const Backend& backend, Index targets, const std::int32_t* target_R,
                    Index rows) {
  InverseIndex out{backend.zeros(DType::i64, {targets + 1}), backend.empty(DType::i32, {rows})};
  Index* offset = out.offset_S1.data<Index>();
  std::int32_t* row = out.row_R.data<std::int32_t>();
  for (Index r = 0; r < rows; ++r) {
    MOELAB_CHECK(target_R[r] < targets, "row ", r, " refers to ", target_R[r], " of ", targets);
    if (target_R[r] >= 0) ++offset[target_R[r] + 1];
  }
  for (Index s = 0; s < targets; ++s) offset[s + 1] += offset[s];
  // Filling moves each offset to the end of its target, which is the begin of the next.
  for (Index r = 0; r < rows; ++r)
    if (target_R[r] >= 0) row[offset[target_R[r]]++] = static_cast<std::int32_t>(r);
  for (Index s = targets; s > 0; --s) offset[s] = offset[s - 1];
  offset[0] = 0;
  return out;
}

}  // namespace moelab
