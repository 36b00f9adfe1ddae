// What droppers share: how many rows an expert may take within a scope, in each phase.
#pragma once
#include <array>
#include <string>
#include <vector>

#include "core/moe/dropper.h"

namespace moelab {

enum class CapacityRule : std::uint8_t { exact, deepspeed_f32 };
template <>
struct EnumNames<CapacityRule> {
  static constexpr std::array<std::pair<std::string_view, CapacityRule>, 2> value{
      {{"exact", CapacityRule::exact}, {"deepspeed_f32", CapacityRule::deepspeed_f32}}};
};

struct CapacityParams {
  double capacity_factor = 1.25;
  double eval_capacity_factor = 0.0;
  bool drop_in_inference = false;
  std::int64_t min_capacity = 0;
  CapacityRule rule = CapacityRule::exact;
  bool pad_to_capacity = false;
  bool renormalize = false;
  double renormalize_floor = 0.0;
  ScopeParams scope;
  void describe(ParamVisitor& v);
  void check(const Dropper::Facts& facts, Checker& checker) const;
  Dropper::Traits traits() const;
  std::string formula(
      const std::string& who) const;  // `who` is kept: "the pairs of largest weight"
  double factor(Phase phase) const;   // 0: nothing is dropped
  Index rows(Index valid_tokens, Index k, Index experts, double factor) const;  // C
};

// A dropper by capacity: the policy says which of an expert's pairs stay.
class CapacityDropper : public Dropper {
 public:
  CapacityDropper(const CapacityParams& params, const Context& context)
      : params_(params), experts_(context.experts) {}
  void drop(RoutingPlan& plan, const Tensor& weight_P, const DropInput& input) final;

 protected:
  // Marks the pairs that do not fit; capacity by instance of `scope`. Collective like drop().
  virtual void limit(RoutingPlan& plan, const Tensor& weight_P, const DropInput& input,
                     const ScopeMap& scope, const std::vector<Index>& capacity) const = 0;

 private:
  std::vector<Index> capacities(const RoutingPlan& plan, const DropInput& input,
                                const ScopeMap& scope, double factor) const;
  void pad(RoutingPlan& plan, const ScopeMap& scope, const std::vector<Index>& capacity) const;

  CapacityParams params_;
  Index experts_ = 0;
};

// A pair's place in its expert's queue: the lower tier first, then the higher score, then the
// earlier token.
struct PairPriority {
  std::int32_t tier = 0;
  double score = 0;
};
// Marks the pairs beyond each expert's capacity in the order of `priority(token, pair)`. Collective
// when instances span ranks.
void keep_first(RoutingPlan& plan, const Tokens& tokens, const ScopeMap& scope,
                const std::vector<Index>& capacity,
                const std::function<PairPriority(Index, Index)>& priority);

}  // namespace moelab
