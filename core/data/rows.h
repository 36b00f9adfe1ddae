// Building a Row position by position.
#pragma once
#include "core/data/dataset.h"

namespace moelab {

// A row of `length` positions that are all padding: input 0, no target, document −1, not valid.
inline Row padding_row(std::int64_t length) {
  const auto n = static_cast<std::size_t>(length);
  Row row;
  row.input.assign(n, 0);
  row.target.assign(n, -1);
  row.position.assign(n, 0);
  row.document.assign(n, -1);
  row.valid.assign(n, 0);
  return row;
}

struct Cell {
  std::int32_t input = 0, target = -1, position = 0, document = 0;
};

inline void put(Row& row, std::int64_t i, const Cell& cell) {
  const auto at = static_cast<std::size_t>(i);
  row.input[at] = cell.input;
  row.target[at] = cell.target;
  row.position[at] = cell.position;
  row.document[at] = cell.document;
  row.valid[at] = 1;
}

}  // namespace moelab
