// Routing where each token has a number of experts of its own: expert choice, top-p, ReLU. A router
// says which pairs; scores, weights and the ragged plan follow. T tokens, E experts, P pairs.
#pragma once
#include <functional>
#include <memory>

#include "core/autograd/functions.h"
#include "core/moe/router.h"

namespace moelab {

struct PairRule {
  ScoreKind score = ScoreKind::softmax;
  bool normalize = false;  // divide a token's weights by their sum
  double scaling = 1.0;    // then multiply by this
};

// `choose` may be collective: a recomputed segment takes the pairs of its first pass. Forced
// routing replaces it.
Routing route_pairs(Tape& tape, const RouterInput& input, const Variable& logits_TE,
                    const PairRule& rule, const ChoosePairs& choose);

// The experts of each token that `taken` marks [T·E], by falling score, ties to the lower id.
std::shared_ptr<const TokenPairs> sorted_pairs(const Tensor& scores_TE,
                                               const std::vector<std::uint8_t>& taken);

}  // namespace moelab
