// Balancer: losses and controllers that keep experts evenly used. Every hook is optional.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/moe/loss_ledger.h"
#include "core/moe/router.h"

namespace moelab {

class Experts;

struct BalancerInput {
  const Routing& routing;
  const Tokens& tokens;
  Moment moment;
  Index layer = 0;
  std::shared_ptr<Group> dp;
  // Instances of a scope in the whole step (non-empty, over all micro-batches and ranks).
  std::function<Index(ScopeSpec)> instances_in_step;
  // The scope's map for this micro-batch; built once and shared.
  std::function<const ScopeMap&(ScopeSpec)> scope;
  Index valid_tokens_in_step = 0;
  // What this balancer's layer kept from the earlier micro-batches of the step (per balancer,
  // cleared by the trainer when the step ends, never saved).
  StateStore& step_state;
  // The layer's, for losses on their weights; null only in tests of a balancer alone.
  Router* router = nullptr;
  Experts* experts = nullptr;
  std::shared_ptr<Group> ep{};  // the ranks with the other experts; null: all are here
};

struct PricingInput {  // what a balancer that prices the batch at hand knows before it is routed
  const Tokens& tokens;
  std::function<const ScopeMap&(ScopeSpec)> scope;
  StateStore& step_state;  // as in BalancerInput
};

class Balancer {
 public:
  static constexpr std::string_view family = "balancer";
  struct Facts {
    Index experts = 0, k = 0;  // k is 0 where it varies
    Index rows_per_micro_batch = 0, ranks = 1;
    Index micro_batches = 1;
    double mean_k = 0;     // experts a token is expected to have; k where that is fixed
    bool has_gate = true;  // of the router, as in Router::Traits
  };
  struct Traits {
    bool has_loss = false, has_bias = false;
    std::optional<ScopeSpec> scope;  // what the loss is computed over
    bool sums_layers = false;        // pooled over the MoE layers expert by expert: as many in each
  };
  struct Context {
    Backend& backend;
    DType dtype;  // of state
    Index experts = 0, k = 0, layer = 0;
    std::string label;
    StateStore& state;
    double mean_k = 0;  // experts a token is expected to have; k where that is fixed
  };
  virtual ~Balancer() = default;
  // The loss of one layer and micro-batch; its value is 1 at perfect balance for losses of the form
  // Σ f·P.
  virtual std::optional<LossTerm> loss(Tape&, const BalancerInput&) { return {}; }
  // A loss over all MoE layers together, called once a micro-batch, on the balancers of the first
  // layer that has such.
  virtual std::optional<LossTerm> pooled_loss(Tape&, std::span<const Routing>,
                                              const BalancerInput&) {
    return {};
  }
  // Added to the scores before selection, never to the weights. Undefined: none.
  virtual Tensor bias() const { return {}; }
  // In training, a bias for the batch at hand instead: given the keys that experts are chosen by
  // (ChoicePricing in router.h). Undefined: bias() stands.
  virtual bool prices() const { return false; }
  virtual Tensor price(const Tensor& /*key_TE*/, bool /*positive*/, const PricingInput&) {
    return {};
  }
  // Once a step, after the optimizer; not called for skipped steps, in eval, or when frozen.
  virtual void after_step(const StepLoad&) {}
};

}  // namespace moelab
