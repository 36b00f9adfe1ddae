#include "core/autograd/functions.h"
#include "core/lab/op_case.h"

namespace moelab {
namespace {

// T tokens, E experts. Inputs: logits, choice bias, valid mask.
OpInstance instance(OpSize size, RouterRule rule, bool grouped, bool widen) {
  const bool small = size == OpSize::small;
  const Index tokens = small ? 13 : 8192, experts = small ? 12 : 64;
  rule.k = small ? 3 : 6;
  if (grouped) {
    rule.groups = 4;
    rule.group_limit = 2;
    rule.group_top = 2;
  }
  OpInstance c;
  c.inputs = {OpInput::real({tokens, experts}, -3, 3), OpInput::constant({experts}, -0.2, 0.2),
              OpInput::integers(DType::u8, {tokens}, 0, 1)};
  c.build = [rule, widen](Tape& t, const std::vector<Variable>& in) {
    const RouterScores s = router_select(t, in[0], rule, in[1].value, in[2].value, nullptr,
                                         widen ? DType::f64 : in[0].value.dtype());
    return std::vector<Variable>{s.weight_P, s.scores_TE};
  };
  const auto elements = static_cast<double>(tokens * experts);
  c.forward = {.flops = 20 * elements, .bytes = 8 * elements};
  c.backward = {.flops = 10 * elements, .bytes = 16 * elements};
  return c;
}

RegisterOpCase make(const char* name, ScoreKind score, WeightRule weights, bool key_is_logit,
                    bool grouped = false, bool widen = false) {
  RouterRule rule;
  rule.score = score;
  rule.weights = weights;
  rule.scaling = 1.5;
  rule.key_is_logit = key_is_logit;
  return {name, [=](OpSize size) { return instance(size, rule, grouped, widen); }};
}

using enum ScoreKind;
using enum WeightRule;
const RegisterOpCase cases[] = {
    make("router_select_softmax_post", softmax, softmax_chosen, true),
    make("router_select_softmax_pre", softmax, softmax_all, false),
    make("router_select_softmax_normalized", softmax, normalized, false),
    make("router_select_sigmoid", sigmoid, normalized, false),
    make("router_select_sigmoid_raw", sigmoid, raw, false, false, true),
    make("router_select_sqrtsoftplus", sqrtsoftplus, normalized, false),
    make("router_select_groups", sigmoid, normalized, false, true),
};

}  // namespace
}  // namespace moelab
