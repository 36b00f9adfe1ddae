// How a router turns logits into choices and weights: the parameters of router_select.
#pragma once
#include <cstdint>

namespace moelab {

enum class ScoreKind : std::uint8_t { softmax, sigmoid, sqrtsoftplus };
enum class WeightRule : std::uint8_t {
  softmax_chosen,  // softmax over the chosen logits (post)
  softmax_all,     // softmax over all experts, not renormalised (pre)
  normalized,      // score_i / (Σ chosen + 1e-20); the raw score at k = 1 (Megatron)
  raw,             // score_i
};
struct RouterRule {
  std::int64_t k = 2;
  ScoreKind score = ScoreKind::softmax;
  WeightRule weights = WeightRule::softmax_chosen;
  double scaling = 1.0;
  // DeepSeek's group-limited selection; 0: off. At most kMaxExpertGroups.
  std::int64_t groups = 0, group_limit = 0;
  std::int64_t group_top = 0;  // how many keys a group's score sums; 0: k / group_limit
  bool key_is_logit = true;    // softmax post: select on logits; else on scores
};
constexpr std::int64_t kMaxExpertGroups = 64;

}  // namespace moelab
