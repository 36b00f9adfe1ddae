// Numbers as a recipe lists them: "all", "1-20, 100", "10-1000/10" (every tenth), "" for none.
#pragma once
#include <optional>
#include <string_view>
#include <vector>

#include "core/base/rng.h"

namespace moelab {

class IndexSet {
 public:
  static std::optional<IndexSet> parse(std::string_view text);
  bool has(Index i) const;
  bool empty() const { return ranges_.empty(); }
  bool all() const { return all_; }
  Index largest() const;  // of those listed; −1 for "all" and none

 private:
  struct Range {
    Index first = 0, last = 0, stride = 1;
  };
  std::vector<Range> ranges_;
  bool all_ = false;
};

}  // namespace moelab
