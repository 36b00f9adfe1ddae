// The numbers that a forward of one layer leaves behind. T tokens, E experts; tables are added in
// chunks of fixed size, in order, so that the number of threads cannot change a bit.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/threads.h"
#include "core/moe/moe_layer.h"

namespace moelab {
namespace {

constexpr Index kChunk = 512;  // tokens

struct Partial {
  std::vector<double> score_E;
  double entropy = 0, logit_max = -std::numeric_limits<double>::infinity();
  Index valid = 0;
};

template <class T>
Partial sum_chunk(const Routing& routing, std::span<const std::uint8_t> valid_T, Index begin,
                  Index end) {
  const Index experts = routing.plan->experts;
  const T* score = routing.scores_TE.value.data<T>();
  const T* logit = routing.logits_TE.value.data<T>();
  Partial out;
  out.score_E.assign(static_cast<std::size_t>(experts), 0.0);
  for (Index t = begin; t < end; ++t) {
    if (valid_T[static_cast<std::size_t>(t)] == 0) continue;
    ++out.valid;
    for (Index e = 0; e < experts; ++e) {
      const double p = static_cast<double>(score[t * experts + e]);
      out.score_E[static_cast<std::size_t>(e)] += p;
      if (p > 0) out.entropy -= p * std::log(p);
      out.logit_max = std::max(out.logit_max, static_cast<double>(logit[t * experts + e]));
    }
  }
  return out;
}

void choice_bias_range(const Tensor& bias_E, RoutingRecord& record) {
  if (!bias_E || bias_E.numel() == 0) return;
  dispatch_real(bias_E.dtype(), "choice bias", [&](auto tag) {
    const auto [least, most] = std::ranges::minmax_element(bias_E.span<decltype(tag)>());
    record.choice_bias_min = static_cast<double>(*least);
    record.choice_bias_max = static_cast<double>(*most);
  });
}

}  // namespace

std::shared_ptr<RoutingRecord> make_record(const Routing& routing, const Tokens& tokens,
                                           const Tensor& bias_E, Index layer) {
  auto record = std::make_shared<RoutingRecord>();
  const RoutingPlan& plan = *routing.plan;
  record->layer = layer;
  record->experts = plan.experts;
  record->routed_E = plan.counts_before_drop();
  record->kept_E = plan.counts_kept();
  record->filler_E = plan.filler_E;
  record->dropped_capacity = plan.dropped(PairFate::capacity);
  record->plan = routing.plan;
  record->logit_max = -std::numeric_limits<double>::infinity();
  record->score_sum_E.assign(static_cast<std::size_t>(plan.experts), 0.0);
  choice_bias_range(bias_E, *record);

  const Index chunks = (plan.tokens + kChunk - 1) / kChunk;
  std::vector<Partial> partials(static_cast<std::size_t>(chunks));
  const auto valid_T = tokens.valid_T.span<std::uint8_t>();
  dispatch_real(routing.scores_TE.value.dtype(), "routing record", [&](auto tag) {
    parallel_items(chunks, [&](Index c) {
      partials[static_cast<std::size_t>(c)] = sum_chunk<decltype(tag)>(
          routing, valid_T, c * kChunk, std::min(plan.tokens, (c + 1) * kChunk));
    });
  });
  for (const Partial& partial : partials) {
    record->valid_tokens += partial.valid;
    record->token_entropy_sum += partial.entropy;
    record->logit_max = std::max(record->logit_max, partial.logit_max);
    for (std::size_t e = 0; e < partial.score_E.size(); ++e)
      record->score_sum_E[e] += partial.score_E[e];
  }
  return record;
}

}  // namespace moelab
