#include "core/moe/pair_routing.h"

#include <algorithm>
#include <numeric>

#include "core/base/threads.h"

namespace moelab {
namespace {

std::shared_ptr<const TokenPairs> forced_pairs(const ForcedRouting& forced, const Tokens& tokens) {
  MOELAB_CHECK(static_cast<Index>(forced.offset_T1.size()) == tokens.count() + 1,
               "forced routing of ", forced.offset_T1.size(), " - 1 tokens for ", tokens.count());
  auto pairs = std::make_shared<TokenPairs>();
  pairs->offset_T1 = forced.offset_T1;
  pairs->expert_P = forced.expert_P;
  return pairs;
}

std::shared_ptr<RoutingPlan> ragged_plan(Index experts, const TokenPairs& pairs) {
  auto plan = std::make_shared<RoutingPlan>();
  plan->tokens = static_cast<Index>(pairs.offset_T1.size()) - 1;
  plan->experts = experts;
  plan->offset_T1 = pairs.offset_T1;
  plan->expert_P = pairs.expert_P;
  for (const std::int32_t e : pairs.expert_P)
    plan->fate_P.push_back(e < 0 ? PairFate::absent : PairFate::kept);
  return plan;
}

Variable normalized(Tape& tape, const Variable& weight_P, const TokenPairs& pairs, double scaling) {
  std::vector<std::uint8_t> present_P;
  for (const std::int32_t e : pairs.expert_P) present_P.push_back(e >= 0 ? 1 : 0);
  const Variable w_P = renormalize_weights(tape, weight_P, pairs.offset_T1, present_P);
  return scaling == 1.0 ? w_P : scale(tape, w_P, scaling);
}

}  // namespace

Routing route_pairs(Tape& tape, const RouterInput& input, const Variable& logits_TE,
                    const PairRule& rule, const ChoosePairs& choose) {
  const PairScores chosen = router_pairs(
      tape, logits_TE, rule.score, rule.normalize ? 1.0 : rule.scaling, input.tokens.valid_T,
      [&](const Tensor& scores_TE) {
        return tape.remember([&] {
          return input.forced ? forced_pairs(*input.forced, input.tokens) : choose(scores_TE);
        });
      },
      input.x_TH.value.dtype());
  Routing out;
  out.logits_TE = logits_TE;
  out.scores_TE = chosen.scores_TE;
  out.weight_P = rule.normalize ? normalized(tape, chosen.weight_P, *chosen.pairs, rule.scaling)
                                : chosen.weight_P;
  out.plan = ragged_plan(logits_TE.value.size(1), *chosen.pairs);
  return out;
}

std::shared_ptr<const TokenPairs> sorted_pairs(const Tensor& scores_TE,
                                               const std::vector<std::uint8_t>& taken) {
  const Index tokens = scores_TE.size(0), experts = scores_TE.size(1);
  auto pairs = std::make_shared<TokenPairs>();
  pairs->offset_T1.assign(static_cast<std::size_t>(tokens) + 1, 0);
  for (Index t = 0; t < tokens; ++t) {
    const auto row = taken.begin() + t * experts;
    pairs->offset_T1[static_cast<std::size_t>(t) + 1] =
        pairs->offset_T1[static_cast<std::size_t>(t)] +
        std::accumulate(row, row + experts, Index{0});
  }
  pairs->expert_P.resize(static_cast<std::size_t>(pairs->offset_T1.back()));
  constexpr std::int64_t kGrain = 256;
  dispatch_real(scores_TE.dtype(), "sorted_pairs", [&](auto zero) {
    const auto* scores = scores_TE.data<decltype(zero)>();
    parallel_ranges(tokens, kGrain, [&](std::int64_t begin, std::int64_t end) {
      for (Index t = begin; t < end; ++t) {
        const auto* score = scores + t * experts;
        auto* const first = pairs->expert_P.data() + pairs->offset_T1[static_cast<std::size_t>(t)];
        auto* last = first;
        for (Index e = 0; e < experts; ++e)
          if (taken[static_cast<std::size_t>(t * experts + e)] != 0)
            *last++ = static_cast<std::int32_t>(e);
        std::stable_sort(first, last, [=](auto a, auto b) { return score[a] > score[b]; });
      }
    });
  });
  return pairs;
}

}  // namespace moelab
