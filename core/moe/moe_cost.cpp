// H hidden, D width of the rows (latent or H), F expert width, E expert ids, k of them a token.
#include "core/moe/moe_params.h"

namespace moelab {
namespace {

double real(Index n) { return static_cast<double>(n); }

// Of one expert on rows of width D; `saved`: per row.
LayerCost expert_cost(const Experts::Traits& t, Index width, bool arrives) {
  const Index up = t.gated ? 2 * t.width : t.width;
  const Index weights = (up + t.width) * width;
  LayerCost cost = LayerCost::dense(weights + (t.bias ? up + width : 0), weights, real(up));
  if (t.parameters) cost = LayerCost::dense(t.parameters(width), t.parameters(width), real(up));
  if (arrives) cost.saved += real(width);
  if (t.weight_at == WeightAt::output) cost.saved += real(width);
  if (t.weight_at == WeightAt::input) cost.saved += 2 * real(width);
  return cost;
}

LayerCost router_cost(const Router::Traits& t, Index hidden, Index experts) {
  const Index bias = t.gate_bias ? experts : 0;
  const Index residual = t.reads_previous_logits ? experts * experts : 0;
  const Index all =
      t.parameters ? t.parameters(hidden, experts) : experts * hidden + bias + residual;
  return LayerCost::dense(all, all - bias, 2 * real(experts));  // logits and scores
}

}  // namespace

LayerCost moe_cost(const MoeParams& params, Index hidden, Index ep) {
  const Router::Traits router = params.router.traits();
  const Index networks = params.num_experts, ids = params.expert_ids();
  const Index width = params.latent > 0 ? params.latent : hidden;
  const double k = router.mean_k > 0 ? router.mean_k : router.k > 0 ? real(router.k) : 1;
  // Of k choices that are spread evenly, those that are networks.
  const double chosen = k * real(networks) / real(ids);

  LayerCost cost;
  cost.saved = real(hidden) + 2 * k;  // the layer's input, the pairs' weights
  cost += router_cost(router, hidden, ids);
  const LayerCost expert = expert_cost(params.experts.traits(), width, ep > 1);
  cost += {networks * expert.parameters, networks * expert.parameters, chosen * expert.active,
           chosen * expert.multiplied, chosen * expert.saved};
  if (params.latent > 0)
    cost += LayerCost::dense(2 * hidden * width, 2 * hidden * width, 2 * real(width));
  for (const auto& [label, free] : params.free_experts.items()) {
    const FreeExpert::Traits traits = free.traits();
    const Index all = traits.count * traits.vectors * hidden;
    cost += LayerCost::dense(all, all, 3 * real(traits.count * traits.vectors));
  }
  if (const Shared::Traits shared = params.shared.traits(); shared.cost)
    cost += shared.cost(hidden);
  return cost;
}

}  // namespace moelab
