// Router: which experts each token goes to and with which weight. One router serves training and
// inference. T tokens, H hidden width, E experts, P pair slots.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/autograd/tape.h"
#include "core/moe/routing_plan.h"
#include "core/moe/scope.h"
#include "core/moe/state_store.h"
#include "core/moe/step_load.h"
#include "core/moe/tokens.h"
#include "registry/component.h"

namespace moelab {

struct Routing {
  std::shared_ptr<RoutingPlan> plan;
  Variable weight_P;   // combine weights, run dtype; 0 where absent; gradient flows to the logits
  Variable logits_TE;  // router dtype
  // Scores normalised over all E experts (softmax, or sigmoid/Σ): what balancing losses see. Rows
  // of invalid tokens are 0.
  Variable scores_TE;
  // Of routers that add Gaussian noise to their logits, in training: the logits without it, and its
  // standard deviation. Undefined elsewhere.
  Variable clean_logits_TE, noise_std_TE;
};

// Recorded draws, so that noise can be played back: fill(name, out) writes the values and returns
// true to override the router's own counter-based draw. Names are global, as those of parameters:
// "model.layers.3.mlp.gate.jitter", the factors [T, H] on the router's input.
using NoiseSource = std::function<bool(std::string_view name, const Tensor& out)>;

// Routing recorded elsewhere, forced on this router: expert ids in choice order, −1 absent.
struct ForcedRouting {
  std::vector<Index> offset_T1;
  std::vector<std::int32_t> expert_P;
};

// Prices found for the batch at hand: from the keys [T, E] that experts are chosen by, before any
// bias, to the choice bias [E] that takes bias_E's place. `positive`: keys are never below 0.
// Collective; a router that chooses by keys calls it once a forward, inside tape.remember, forced
// or not. Routers that take no choice bias ignore it.
using ChoicePricing = std::function<Tensor(const Tensor& key_TE, bool positive)>;

struct RouterInput {
  Variable x_TH;
  const Tokens& tokens;
  Moment moment;
  Index layer = 0;                        // 0-based block
  const ForcedRouting* forced = nullptr;  // replay: ids are taken, weights are computed at them
  const NoiseSource* noise = nullptr;
  Tensor bias_E;                // choice-only bias from balancers, f32/f64; may be undefined
  Variable previous_logits_TE;  // of the previous MoE layer; may be undefined
  std::shared_ptr<Group> dp;
  // The scope's map for this micro-batch, shared by all that ask; collective on first use when
  // instances span ranks.
  std::function<const ScopeMap&(ScopeSpec)> scope{};
  // What this router kept from the earlier micro-batches of the step (cleared when a step begins,
  // never saved). Null outside a layer.
  StateStore* step_state = nullptr;
  const ChoicePricing* pricing = nullptr;  // null: none
};

class Router : public Module {
 public:
  static constexpr std::string_view family = "router";
  struct Facts {
    Index hidden = 0, experts = 0;
    bool generates = false;        // the recipe samples text
    bool has_choice_bias = false;  // some balancer adds one
    Index rows_per_micro_batch = 0, ranks = 1;
  };
  struct Traits {
    bool causal = true;               // a token's routing depends on no later token
    bool non_causal_allowed = false;  // the recipe says: evaluate and generate all the same
    bool variable_k = false;
    bool stochastic = false;  // draws noise in training
    // In training, backward estimates a gradient through a sampled choice; it is not the derivative
    // of forward, which contracts then take from evaluation.
    bool estimated_gradient = false;
    Index k = 0;                     // experts a token; 0 when it varies
    double mean_k = 0;               // expected experts a token where k varies (for explain); 0: k
    std::optional<ScopeSpec> scope;  // what a selection across tokens is computed over
    bool has_gate = true;            // gate() is a weight [E, H], which losses may ask for
    bool gate_bias = false;          // the gate has a bias (counted by explain)
    bool reads_previous_logits = false;  // of the MoE layer before, which has as many experts
    // All of the router's parameters, where they are not one [E, H] gate with its bias and the
    // [E, E] map of previous logits.
    std::function<Index(Index hidden, Index experts)> parameters{};
    std::vector<std::string>
        train_inference_gap{};  // what differs between training and inference, in words
    double active() const { return k > 0 ? static_cast<double>(k) : mean_k; }  // experts a token
  };
  struct Context {
    Backend& backend;
    DType dtype;
    Index hidden = 0, experts = 0, layer = 0;
    std::string name;  // "model.layers.3.mlp.gate"
    double init_std = 0.02;
    StateStore& state;
  };
  virtual Routing route(Tape& tape, const RouterInput& input) = 0;
  // The gate's weight [E, H], for losses on it; null if there is none.
  virtual Parameter* gate() { return nullptr; }
  // Once a step, after the optimizer: the only place where state moves. Not called for skipped
  // steps, in eval, or when frozen.
  virtual void after_step(const StepLoad&) {}
};

}  // namespace moelab
