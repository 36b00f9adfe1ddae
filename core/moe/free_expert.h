// FreeExpert: experts that cost next to nothing (MoE++, Jin et al. 2024; LongCat-Flash, 2025).
// Their ids follow those of the networks; routers, balancers and loads count them like any other,
// but they are computed where the token is: nothing is dispatched, nothing dropped. T tokens, H
// hidden, P pair slots.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "core/autograd/tape.h"
#include "core/moe/routing_plan.h"
#include "core/moe/tokens.h"
#include "registry/component.h"

namespace moelab {

struct FreeExpertParams {
  std::int64_t count = 1;
  void describe(ParamVisitor& v) {
    v("count", count, "experts of this kind; their ids follow the networks', tables in label order",
      between(1, 1e6));
  }
};

struct FreeInput {
  const Variable& x_TH;  // the layer's input, at full width
  const Tokens& tokens;
  // [T]: what each token's combine weights of experts first to first + count − 1 sum to.
  std::function<Variable(Index first, Index count)> weight_T;
};

class FreeExpert : public Module {
 public:
  static constexpr std::string_view family = "free_expert";
  struct Facts {
    Index hidden = 0;
  };
  struct Traits {
    Index count = 1;
    Index vectors = 0;  // parameters of each: so many times the hidden width
  };
  struct Context {
    Backend& backend;
    DType dtype;
    Index hidden = 0;
    Index first = 0;   // id of its first expert
    std::string name;  // "model.layers.3.mlp.free_experts.<label>"
    double init_std = 0.02;
  };
  // y_TH and what the experts of this table add to it.
  virtual Variable forward(Tape&, const Variable& y_TH, const FreeInput&) = 0;
  void parameters(const std::function<void(Parameter&)>&) override {}
};

// The plan as dispatchers see it: pairs with experts from `networks` on are absent.
RoutingPlan network_pairs(const RoutingPlan& plan, Index networks);
// Pairs with free experts stay, whatever the dropper decided, and no filler rows are theirs.
void keep_free_pairs(RoutingPlan& plan, Index networks);
// FreeInput::weight_T.
Variable weight_of_experts(Tape&, const RoutingPlan& plan, const Variable& weight_P, Index first,
                           Index count);

}  // namespace moelab
