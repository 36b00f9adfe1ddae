// Balancing losses on the router's weight instead of its scores: the rows of the gate [E, H] are
// held near orthogonal, so that experts are chosen for different directions. E experts, H hidden.
#pragma once
#include <string>

#include "core/autograd/functions.h"
#include "core/moe/balancer.h"

namespace moelab {

struct GateLossParams {
  double coefficient;
  void describe(ParamVisitor& v) {
    v("coefficient", coefficient, "weight of the loss in the objective", at_least(0));
  }
  void check(const Balancer::Facts& facts, Checker& checker) const {
    if (!facts.has_gate)
      checker.error("",
                    "is a loss on the gate's weight, which this layer's router does not have; "
                    "remove the balancer or take another router");
  }
  Balancer::Traits traits() const { return {.has_loss = true, .scope = std::nullopt}; }
};

class GateLoss : public Balancer {
 public:
  GateLoss(const GramRule& rule, double coefficient, const Context& context)
      : rule_(rule), coefficient_(coefficient), label_(context.label) {}
  // Every rank and micro-batch counts an equal part, since all see the same weight. Throws
  // Error(usage) for a router without a gate.
  std::optional<LossTerm> loss(Tape& tape, const BalancerInput& input) final;

 private:
  GramRule rule_;
  double coefficient_;
  std::string label_;
};

}  // namespace moelab
