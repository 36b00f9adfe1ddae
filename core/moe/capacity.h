// What droppers share: how many rows an expert may take within a scope, in each phase.
#pragma once
#include <string>
#include <vector>

#include "core/moe/dropper.h"

namespace moelab {

struct CapacityParams {
  double capacity_factor = 1.25;
  double eval_capacity_factor = 0.0;
  bool drop_in_inference = false;
  std::int64_t min_capacity = 0;
  bool pad_to_capacity = false;
  bool renormalize = false;
  ScopeParams scope;
  void describe(ParamVisitor& v);
  void check(const Dropper::Facts& facts, Checker& checker) const;
  Dropper::Traits traits() const;
  std::string formula(
      const std::string& who) const;  // `who` is kept: "the pairs of largest weight"
  double factor(Phase phase) const;   // 0: nothing is dropped
};

// A dropper by capacity: the policy says which of an expert's pairs stay.
class CapacityDropper : public Dropper {
 public:
  CapacityDropper(const CapacityParams& params, const Context& context)
      : params_(params), experts_(context.experts) {}
  void drop(RoutingPlan& plan, const Tensor& weight_P, const DropInput& input) final;

 protected:
  // Marks the pairs that do not fit; capacity by instance of `scope`. Collective like drop().
  virtual void limit(RoutingPlan& plan, const Tensor& weight_P, const Tokens& tokens,
                     const ScopeMap& scope, const std::vector<Index>& capacity) const = 0;

 private:
  void pad(RoutingPlan& plan, const ScopeMap& scope, const std::vector<Index>& capacity) const;

  CapacityParams params_;
  Index experts_ = 0;
};

}  // namespace moelab
