// Who goes where: ragged (token, expert) pairs in choice order. It is built once by the router,
// loses pairs to a dropper, and is never rebuilt from weights. T tokens, P pair slots, E experts.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "core/tensor/tensor.h"

namespace moelab {

enum class PairFate : std::uint8_t {
  kept = 0,
  capacity = 1,  // dropped: its expert was full
  absent = 2,    // no pair here: the token is padding, or chose fewer than k experts
};
constexpr int kDropReasons = 1;  // reasons in metrics order: capacity

struct RoutingPlan {
  Index tokens = 0, experts = 0;
  Index uniform_k = 0;  // > 0: pair slots of token t are [t·k, (t+1)·k)
  std::vector<Index>
      offset_T1;  // otherwise: slots of token t are [offset[t], offset[t+1]); size T+1
  std::vector<std::int32_t> expert_P;  // in choice order (best first); −1 where absent
  std::vector<PairFate> fate_P;
  // Filler rows (pad to capacity): rows per expert that belong to no token; zero input, never
  // counted.
  std::vector<Index> filler_E;  // empty: none

  Index begin(Index t) const {
    return uniform_k > 0 ? t * uniform_k : offset_T1[static_cast<std::size_t>(t)];
  }
  Index end(Index t) const { return begin(t + 1); }
  std::vector<Index> offsets() const;  // [T+1]: begin(t), and the end of the last
  Index pairs() const { return static_cast<Index>(expert_P.size()); }
  std::vector<Index> counts_before_drop() const;  // [E], kept + dropped
  std::vector<Index> counts_kept() const;         // [E]
  Index dropped(PairFate reason) const;
  // Ids in range, no expert twice for a token, sizes consistent. Throws InternalError.
  void validate() const;
};

// k choices a token, all kept; −1 in expert_P is an absent pair.
std::shared_ptr<RoutingPlan> uniform_plan(Index tokens, Index experts, Index k,
                                          std::vector<std::int32_t> expert_P);

}  // namespace moelab
