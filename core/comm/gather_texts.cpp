#include "core/comm/gather_texts.h"

#include <algorithm>

namespace moelab {

std::vector<std::string> gather_texts(const Backend& backend, Group* group,
                                      const std::string& own) {
  if (!group || group->size() == 1) return {own};
  const Index ranks = group->size();
  const Tensor length = backend.zeros(DType::i64, {ranks});
  length.data<std::int64_t>()[group->rank()] = static_cast<std::int64_t>(own.size());
  group->all_reduce(length).wait();
  Index longest = 1;
  for (const std::int64_t n : length.span<std::int64_t>()) longest = std::max(longest, n);
  // One code unit an i32, since collectives carry numbers.
  const Tensor mine = backend.zeros(DType::i32, {longest});
  const Tensor all = backend.empty(DType::i32, {ranks, longest});
  std::copy(own.begin(), own.end(), mine.data<std::int32_t>());
  group->all_gather(mine, all).wait();
  std::vector<std::string> texts;
  for (Index r = 0; r < ranks; ++r) {
    const std::int32_t* from = all.data<std::int32_t>() + r * longest;
    std::string text;
    for (Index i = 0; i < length.data<std::int64_t>()[r]; ++i) text += static_cast<char>(from[i]);
    texts.push_back(std::move(text));
  }
  return texts;
}

}  // namespace moelab
