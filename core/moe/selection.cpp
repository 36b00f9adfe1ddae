#include "core/moe/selection.h"

#include "core/moe/forced_routing.h"
#include "core/moe/selection_keys.h"

namespace moelab {

void SelectionParams::describe(ParamVisitor& v) {
  v("k", k, "experts chosen per token", at_least(1));
  v("groups", groups, "cut the experts into this many groups of neighbours; 0: no groups",
    between(0, static_cast<double>(kMaxExpertGroups)));
  v("group_limit", group_limit, "choose only from the best groups, this many; 0: no groups",
    between(0, static_cast<double>(kMaxExpertGroups)));
  v("group_top", group_top,
    "a group's score is the sum of its largest keys, this many; 0: k / group_limit",
    between(0, static_cast<double>(kMaxExpertGroups)));
  v("group_mask", group_mask,
    "experts outside the best groups: excluded, or with the key 0, which beats negative keys");
  v("scaling", scaling, "factor on the combine weights", greater_than(0));
  GateParams::describe(v);
}

void SelectionParams::check(const Router::Facts& facts, Checker& checker) const {
  if (k > facts.experts)
    checker.error("k", "is more than the layer's ", facts.experts,
                  " experts; lower k or raise num_experts");
  if (groups == 0 && group_limit == 0) {
    if (group_top != 0)
      checker.error("group_top", "has no effect without groups; set groups and group_limit");
    if (group_mask != GroupMask::excluded)
      checker.error("group_mask", "has no effect without groups; set groups and group_limit");
    return;
  }
  if (groups == 0) return checker.error("group_limit", "needs groups; set both or neither");
  if (group_limit == 0) return checker.error("groups", "needs group_limit; set both or neither");
  if (facts.experts % groups != 0)
    return checker.error("groups", "does not divide the layer's ", facts.experts, " experts");
  const std::int64_t size = facts.experts / groups;
  if (group_limit > groups) return checker.error("group_limit", "is more than groups = ", groups);
  if (k > group_limit * size)
    checker.error("k", "is more than the ", group_limit * size, " experts of ", group_limit,
                  " groups; raise group_limit or lower k");
  if (group_top > size)
    checker.error("group_top", "is more than the ", size, " experts of a group");
  if (group_top == 0 && k < group_limit)
    checker.error("group_limit", "is more than k = ", k,
                  ", so that k / group_limit keys are none; set group_top or lower group_limit");
  if (group_top == 0 && k / group_limit > size)
    checker.error("group_limit", "makes a group's score the sum of ", k / group_limit,
                  " keys, but a group has ", size, " experts; set group_top");
}

Router::Traits SelectionParams::traits() const {
  Router::Traits traits = GateParams::traits();
  traits.k = k;
  return traits;
}

RouterRule SelectionParams::rule() const {
  RouterRule rule;
  rule.k = k;
  rule.scaling = scaling;
  rule.groups = groups;
  rule.group_limit = group_limit;
  rule.group_top = group_top;
  rule.zero_outside = group_mask == GroupMask::zero;
  return rule;
}

std::string SelectionParams::selection_text(const std::string& key) const {
  std::string text = str("the ", k, " experts with the largest ", key,
                         " + choice bias (if a balancer gives one), ties to the lower id");
  if (groups > 0)
    text += str(", out of the ", group_limit, " of ", groups, " groups with the largest sum of ",
                group_top > 0 ? group_top : k / group_limit, " keys",
                group_mask == GroupMask::zero ? "; the key is 0 in the others" : "");
  return text;
}

std::string SelectionParams::scaling_text() const {
  return scaling == 1.0 ? "" : " * " + exact(scaling);
}

void NormalizeParams::describe(ParamVisitor& v, std::string_view doc) {
  v("normalize", normalize, doc);
  v("normalize_epsilon", normalize_epsilon, "added to the sum that chosen scores are divided by",
    at_least(0));
  v("normalize_floor", normalize_floor, "chosen scores are divided by no less than this",
    at_least(0));
  v("normalize_power", normalize_power,
    "p of the norm that chosen scores are divided by; 1: their sum", at_least(1));
  v("normalize_single", normalize_single, "divide at k = 1 as well, where every weight becomes 1");
}

void NormalizeParams::check(Checker& checker) const {
  if (normalize) return;
  const NormalizeParams plain;
  const auto unused = [&](std::string_view key, bool set) {
    if (set) checker.error(key, "has no effect without normalize = true; set it or remove this");
  };
  unused("normalize_epsilon", normalize_epsilon != plain.normalize_epsilon);
  unused("normalize_floor", normalize_floor != plain.normalize_floor);
  unused("normalize_power", normalize_power != plain.normalize_power);
  unused("normalize_single", normalize_single);
}

void NormalizeParams::put(RouterRule& rule, WeightRule otherwise) const {
  rule.weights = normalize ? WeightRule::normalized : otherwise;
  rule.epsilon = normalize_epsilon;
  rule.floor = normalize_floor;
  rule.power = normalize_power;
  rule.normalize_single = normalize_single;
}

std::string NormalizeParams::text(std::int64_t k) const {
  if (!normalize || (k == 1 && !normalize_single)) return "";
  std::string sum = normalize_power == 1.0 ? "sum over chosen s_j"
                                           : str("(sum over chosen s_j^", exact(normalize_power),
                                                 ")^(1/", exact(normalize_power), ")");
  if (normalize_floor > 0) sum = str("max(", sum, ", ", exact(normalize_floor), ")");
  return normalize_epsilon > 0 ? str(" / (", sum, " + ", exact(normalize_epsilon), ")")
                               : str(" / (", sum, ")");
}

void OwnScoreParams::describe(ParamVisitor& v) {
  SelectionParams::describe(v);
  NormalizeParams::describe(v, "divide the chosen scores by their sum (unless k = 1)");
  v("choose_by", choose_by, "what the choice compares: scores, or the logits they come from");
}

void OwnScoreParams::check(const Router::Facts& facts, Checker& checker) const {
  SelectionParams::check(facts, checker);
  NormalizeParams::check(checker);
}

RouterRule OwnScoreParams::rule_for(ScoreKind score) const {
  RouterRule rule = SelectionParams::rule();
  rule.score = score;
  rule.key_is_logit = choose_by == ChooseBy::logit;
  put(rule, WeightRule::raw);
  return rule;
}

std::string OwnScoreParams::formula_for(const std::string& score) const {
  const bool by_logit = choose_by == ChooseBy::logit;
  return str("logits l = ", logits_text(), "; scores s = ", score, "; choose ",
             selection_text(by_logit ? "logit" : "s"), "; weights w_i = s_i", text(k),
             scaling_text());
}

Routing route_top_k(Tape& tape, const RouterInput& input, const Variable& logits_TE,
                    const RouterRule& rule, const Tensor& bias_E,
                    const std::vector<std::int32_t>* ids) {
  const Index experts = logits_TE.value.size(1);
  if (input.forced) ids = &forced_ids(input, rule.k, experts);
  Tensor used_E = bias_E;
  if (input.pricing && bias_E && bias_E.raw() == input.bias_E.raw())
    used_E = tape.remember([&] {
      const bool positive = !rule.key_is_logit;
      return (*input.pricing)(selection_keys(tape.backend(), logits_TE.value, rule), positive);
    });
  RouterScores scores = router_select(tape, logits_TE, rule, used_E, input.tokens.valid_T, ids,
                                      input.x_TH.value.dtype());
  Routing out;
  out.logits_TE = logits_TE;
  out.weight_P = scores.weight_P;
  out.scores_TE = scores.scores_TE;
  out.plan = uniform_plan(input.tokens.count(), experts, rule.k, std::move(scores.expert_P));
  return out;
}

Routing TopKRouter::route(Tape& tape, const RouterInput& input) {
  return route_top_k(tape, input, logits(tape, input), rule_, input.bias_E);
}

}  // namespace moelab
