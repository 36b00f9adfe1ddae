// The one MoE layer: route, drop, dispatch, experts, combine, with balancers beside; free experts
// where the token is, and what is shared by all tokens after. Everything
// that a published idea changes is behind a family; the layer only connects them.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/moe/balancer.h"
#include "core/moe/dispatcher.h"
#include "core/moe/dropper.h"
#include "core/moe/experts.h"
#include "core/moe/forced_routing.h"
#include "core/moe/free_expert.h"
#include "core/moe/router.h"
#include "core/moe/shared.h"
#include "core/parallel/rank_context.h"

namespace moelab {

// The MoE part of a recipe: [ffn.<name>] with kind = "moe".
struct MoeParams {
  std::int64_t num_experts = 8;
  Component<Router> router{"softmax"};
  Components<Balancer> balancers;
  Component<Dropper> dropper{"none"};
  Component<Dispatcher> dispatcher{"auto"};
  Component<Experts> experts{"grouped"};
  Components<FreeExpert> free_experts;
  Component<Shared> shared{"none"};
  std::int64_t latent = 0;
  void describe(ParamVisitor& v);
  // Expert ids: the networks', then the free experts'.
  Index expert_ids() const;
};

// What one forward of one layer leaves behind, as values; the trainer commits it once a step. All
// numbers are this rank's; sums over ranks and micro-batches come later.
struct RoutingRecord {
  Index layer = 0, experts = 0;
  std::vector<Index> routed_E, kept_E, filler_E;  // i64
  Index dropped_capacity = 0;
  Index valid_tokens = 0;
  std::vector<double> score_sum_E;  // Σ_t scores
  double token_entropy_sum = 0;     // Σ_t H(scores_t), nats
  double logit_max = 0;             // over valid tokens; −∞ if there are none
  double choice_bias_min = 0, choice_bias_max = 0;
  std::shared_ptr<const RoutingPlan> plan;  // for trace and tests
  Tensor weight_P;                          // as it reaches the experts; undefined outside a layer
  ForcedDifference forced;                  // where routing was forced and compared
};

std::shared_ptr<RoutingRecord> make_record(const Routing& routing, const Tokens& tokens,
                                           const Tensor& bias_E, Index layer);

struct StepFacts {  // the same for all layers and micro-batches of a step
  std::function<Index(ScopeSpec)> instances_in_step;
  Index valid_tokens_in_step = 0;
};

// Scope maps of one micro-batch, built on first use and shared by its layers and by recomputed
// segments, which therefore repeat no collective.
class ScopeMaps {
 public:
  ScopeMaps(const Tokens& tokens, std::shared_ptr<Group> dp)
      : tokens_(tokens), dp_(std::move(dp)) {}
  const ScopeMap& get(ScopeSpec spec);  // collective on first use when instances span ranks

 private:
  Tokens tokens_;  // shares the tensors
  std::shared_ptr<Group> dp_;
  std::vector<std::pair<ScopeSpec, std::unique_ptr<ScopeMap>>> maps_;
};

struct FfnInput {
  Variable x_TH;
  const Tokens& tokens;
  Moment moment;
  const StepFacts& facts;
  const ForcedRouting* forced = nullptr;
  const NoiseSource* noise = nullptr;
  Variable previous_logits_TE{};
  std::shared_ptr<ScopeMaps> scopes{};  // null: the layer makes its own
  bool compare_forced = false;  // count where the router's own choice differs (routes twice)
};

struct FfnOutput {
  Variable y_TH;
  std::vector<LossTerm> losses;
  std::shared_ptr<RoutingRecord> record;  // null for dense
  std::shared_ptr<Routing> routing;       // null for dense; for pooled losses and the next layer
};

class MoeLayer {
 public:
  struct Context {
    RankContext& ranks;
    DType dtype;
    Index hidden = 0, layer = 0;
    double init_std = 0.02, output_init_std = 0.02, router_init_std = 0.02;
    std::string name;  // "model.layers.3.mlp"
  };
  MoeLayer(const MoeParams& params, const Context& context);
  FfnOutput forward(Tape& tape, const FfnInput& input);
  // Losses over all MoE layers together, by this layer's balancers.
  std::vector<LossTerm> pooled_losses(Tape& tape, std::span<const Routing> layers,
                                      const FfnInput& input);
  void parameters(const std::function<void(Parameter&)>& visit);
  StateStore& state() { return state_; }
  // Controllers move; skipped steps and frozen runs do not call it.
  void after_step(const StepLoad& load);
  void begin_step();  // clears the components' per-step memory
  const std::map<std::string, std::unique_ptr<Balancer>>& balancers() const { return balancers_; }

 private:
  void make_experts(const MoeParams& params);
  std::shared_ptr<ScopeMaps> scope_maps(Tape& tape, const FfnInput& input) const;
  BalancerInput balancer_input(const std::string& label, const Routing& routing,
                               const FfnInput& input, const std::shared_ptr<ScopeMaps>& scopes);
  std::vector<LossTerm> losses(Tape& tape, const Routing& routing, const FfnInput& input,
                               const std::shared_ptr<ScopeMaps>& scopes);
  // What the router would choose by itself: without gradients, and without leaving anything behind.
  Routing own_choice(Tape& tape, RouterInput input, const Tensor& bias_E) const;
  // The choice bias once balancers have priced this micro-batch; null outside training and without
  // such balancers. `used_E` gets what it returns.
  ChoicePricing pricing(const FfnInput& input, const std::shared_ptr<ScopeMaps>& scopes,
                        Tensor& used_E);
  Tensor choice_bias() const;  // the sum of the balancers'; undefined: none
  // What the expert networks make of their pairs, [T, H].
  Variable networks(Tape& tape, const FfnInput& input, const RoutingPlan& plan,
                    const Variable& weight_P);
  Variable with_free_experts(Tape& tape, const Variable& y_TH, const FfnInput& input,
                             const RoutingPlan& plan, const Variable& weight_P);

  Context context_;
  StateStore state_;
  StateStore router_step_state_;
  Index networks_ = 0;         // experts with weights, which dispatchers know
  Index experts_ = 0, k_ = 0;  // all expert ids
  Dropper::Traits dropping_;
  std::unique_ptr<Router> router_;
  std::map<std::string, std::unique_ptr<Balancer>> balancers_;
  std::map<std::string, std::unique_ptr<StateStore>> step_state_;
  std::unique_ptr<Dropper> dropper_;
  std::unique_ptr<Dispatcher> dispatcher_;
  std::unique_ptr<Experts> expert_layer_;
  std::vector<std::unique_ptr<FreeExpert>> free_experts_;
  std::unique_ptr<Shared> shared_;
  Parameter latent_in_dH_, latent_out_Hd_;  // values undefined without latent
};

}  // namespace moelab
