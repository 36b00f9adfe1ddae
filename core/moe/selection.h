// What every top-k router shares beside the gate: selection among scores, and weights. A router is a
// score and its own parameters beside these (routers/softmax.cpp). T tokens, H hidden, E experts.
#pragma once
#include <string>
#include <vector>

#include "core/moe/gate.h"

namespace moelab {

struct SelectionParams : GateParams {
  std::int64_t k = 2;
  std::int64_t groups = 0, group_limit = 0, group_top = 0;
  double scaling = 1.0;
  void describe(ParamVisitor& v);
  void check(const Router::Facts& facts, Checker& checker) const;
  Router::Traits traits() const;
  // The parts of RouterRule that these decide.
  RouterRule rule() const;
  // "the 2 of 8 experts with the largest `key`", groups and choice bias included.
  std::string selection_text(const std::string& key) const;
  // " · 2.5" or "".
  std::string scaling_text() const;
};

// Routers that score each expert on its own and choose by the scores: sigmoid, sqrtsoftplus.
struct OwnScoreParams : SelectionParams {
  bool normalize = true;
  void describe(ParamVisitor& v);

 protected:
  RouterRule rule_for(ScoreKind score) const;
  // `score`: the formula of s.
  std::string formula_for(const std::string& score) const;
};

// Gate and selection by a rule.
class TopKRouter : public GatedRouter {
 public:
  TopKRouter(const SelectionParams& params, const RouterRule& rule, const Context& context)
      : GatedRouter(params, context), rule_(rule) {}
  Routing route(Tape& tape, const RouterInput& input) override;

 private:
  RouterRule rule_;
};

// `ids`, if given, are k experts a token in choice order, −1 absent: selected elsewhere or forced.
// `bias_E` enters the selection only. Weights, scores and plan follow.
Routing route_top_k(Tape& tape, const RouterInput& input, const Variable& logits_TE,
                    const RouterRule& rule, const Tensor& bias_E,
                    const std::vector<std::int32_t>* ids = nullptr);

}  // namespace moelab
