// The balancing loss of Switch Transformers (Fedus et al. 2021, eq. 4) over any scope:
//   L = E · Σ_i f_i · P_i,  f_i = share of the choices that went to expert i,  P_i = mean score,
// both over the valid tokens of an instance; 1 when the choices or the scores are even. Gradients
// flow through P only. T tokens, E experts, G scope instances.
#pragma once
#include <array>
#include <string>
#include <vector>

#include "core/moe/balancer.h"

namespace moelab {

// Where f comes from. scores: the top-k of the normalised scores, without choice bias, groups or
// forced routing (Megatron Core); routed: the pairs that the router chose, before dropping; first:
// each token's first choice only (GShard, DeepSpeed's top-2 gate).
enum class CountSource : std::uint8_t { scores, routed, first };
template <>
struct EnumNames<CountSource> {
  static constexpr std::array<std::pair<std::string_view, CountSource>, 3> value{
      {{"scores", CountSource::scores},
       {"routed", CountSource::routed},
       {"first", CountSource::first}}};
};

struct SwitchLossParams {
  double coefficient = 0.01;
  CountSource counts = CountSource::scores;
  void describe(ParamVisitor& v);
  void check(const Balancer::Facts& facts, Checker& checker) const;
  std::string formula(const std::string& where) const;  // `where` f and P are taken
};

// The same with a scope that the recipe states.
struct ScopedSwitchLossParams : SwitchLossParams {
  ScopeParams scope;
  void describe(ParamVisitor& v);
  void check(const Balancer::Facts& facts, Checker& checker) const;
  Balancer::Traits traits() const { return {.has_loss = true, .scope = scope.spec()}; }
};

// Choices of the valid tokens by (instance, expert), i64 [G, E], over all ranks. Source `scores`
// takes a fixed k. Collective when instances span ranks.
Tensor count_choices(const Backend& backend, const Routing& routing, const Tokens& tokens, Index k,
                     CountSource source, const ScopeMap& scope);

// What the loss needs of everything that no gradient flows through. `layers`: how many layers'
// choices are in the counts.
struct SwitchShare {
  Tensor coefficient_GE;  // f64: E · f / (valid tokens · layers · instances of the step)
  std::vector<std::int32_t> instance_T;
};
SwitchShare switch_share(const Backend& backend, const Tensor& counts_GE, const ScopeMap& scope,
                         const Tokens& tokens, Index instances_in_step, Index layers = 1);

// The loss over the instances of one scope of this micro-batch.
class SwitchLoss : public Balancer {
 public:
  SwitchLoss(const SwitchLossParams& params, ScopeSpec scope, const Context& context)
      : params_(params), scope_(scope), k_(context.k), label_(context.label) {}
  std::optional<LossTerm> loss(Tape& tape, const BalancerInput& input) final;

 protected:
  // i64 [G, E], what f is taken from; `now_GE`: the choices of this micro-batch. Called once a
  // micro-batch, with recompute too.
  virtual Tensor counts(const Backend&, const Tensor& now_GE, const BalancerInput&) {
    return now_GE;
  }

 private:
  SwitchLossParams params_;
  ScopeSpec scope_;
  Index k_ = 0;
  std::string label_;
};

}  // namespace moelab
