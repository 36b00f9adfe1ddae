// How a router turns logits into choices and weights: the parameters of router_select.
#pragma once
#include <cstdint>

namespace moelab {

enum class ScoreKind : std::uint8_t { softmax, sigmoid, sqrtsoftplus, relu };
enum class WeightRule : std::uint8_t {
  softmax_chosen,  // softmax over the chosen logits (post)
  softmax_all,     // softmax over all experts, not renormalised (pre)
  normalized,      // score_i / (max(‖chosen‖, floor) + epsilon)
  raw,             // score_i
};
struct RouterRule {
  std::int64_t k = 2;
  ScoreKind score = ScoreKind::softmax;
  WeightRule weights = WeightRule::softmax_chosen;
  double scaling = 1.0;
  // What WeightRule::normalized divides by; Megatron leaves the raw score at k = 1.
  double epsilon = 1e-20, floor = 0, power = 1;  // ‖s‖ = (Σ s^power)^(1/power)
  bool normalize_single = false;                 // divide at k = 1 as well
  // DeepSeek's group-limited selection; 0: off. At most kMaxExpertGroups.
  std::int64_t groups = 0, group_limit = 0;
  std::int64_t group_top = 0;  // how many keys a group's score sums; 0: k / group_limit
  bool zero_outside = false;   // experts outside the best groups keep the key 0: not excluded
  bool key_is_logit = true;    // softmax post: select on logits; else on scores
};
constexpr std::int64_t kMaxExpertGroups = 64;

}  // namespace moelab
