#include "core/moe/selection.h"

#include "core/base/rng.h"
#include "core/ops/jitter.k.h"

namespace moelab {
namespace {

constexpr std::string_view kJitterStream = "router/jitter";

DType compute_dtype(GateDType gate, DType run) {
  if (gate == GateDType::f32) return DType::f32;
  if (gate == GateDType::f64) return DType::f64;
  return run;
}

// Element (t, h) is drawn at global id · H + h; a rank's tokens follow one another.
void draw_jitter(const Rng& rng, double eps, const Tokens& tokens, const Tensor& noise_TH) {
  const auto first = static_cast<std::uint64_t>(tokens.global_id(0) * noise_TH.size(1));
  dispatch_real(noise_TH.dtype(), "jitter", [&](auto zero) {
    MOELAB_KERNELS::draw_jitter(noise_TH.numel(), eps, rng.key(), rng.salt(), first,
                                noise_TH.data<decltype(zero)>());
  });
}

// Step, micro-batch and layer as one coordinate of the draws.
std::uint64_t salt_of(const Moment& moment, Index layer) {
  const auto part = [](Index i) { return static_cast<std::uint64_t>(i); };
  return part(moment.step) << 32U | part(moment.micro_batch) << 16U | part(layer);
}

}  // namespace

void SelectionParams::describe(ParamVisitor& v) {
  v("k", k, "experts chosen per token", at_least(1));
  v("groups", groups, "cut the experts into this many groups of neighbours; 0: no groups",
    between(0, static_cast<double>(kMaxExpertGroups)));
  v("group_limit", group_limit, "choose only from the best groups, this many; 0: no groups",
    between(0, static_cast<double>(kMaxExpertGroups)));
  v("group_top", group_top,
    "a group's score is the sum of its largest keys, this many; 0: k / group_limit",
    between(0, static_cast<double>(kMaxExpertGroups)));
  v("scaling", scaling, "factor on the combine weights", greater_than(0));
  v("jitter", jitter,
    "relative noise on the router's input while training: each element times U(1-jitter, 1+jitter)",
    from_below(0, 1));
  v("dtype", dtype, "precision of logits, scores and selection; input: the run's");
  v("bias", bias, "add a trained bias to the logits");
}

void SelectionParams::check(const Router::Facts& facts, Checker& checker) const {
  if (k > facts.experts)
    checker.error("k", "is more than the layer's ", facts.experts,
                  " experts; lower k or raise num_experts");
  if (groups == 0 && group_limit == 0) {
    if (group_top != 0)
      checker.error("group_top", "has no effect without groups; set groups and group_limit");
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
  Router::Traits traits;
  traits.k = k;
  traits.stochastic = jitter > 0;
  traits.gate_bias = bias;
  if (jitter > 0) traits.train_inference_gap.push_back("input jitter is drawn in training only");
  return traits;
}

RouterRule SelectionParams::rule() const {
  RouterRule rule;
  rule.k = k;
  rule.scaling = scaling;
  rule.groups = groups;
  rule.group_limit = group_limit;
  rule.group_top = group_top;
  return rule;
}

std::string SelectionParams::selection_text(const std::string& key) const {
  std::string text = str("the ", k, " experts with the largest ", key,
                         " + choice bias (if a balancer gives one), ties to the lower id");
  if (groups > 0)
    text += str(", out of the ", group_limit, " of ", groups, " groups with the largest sum of ",
                group_top > 0 ? group_top : k / group_limit, " keys");
  return text;
}

std::string SelectionParams::scaling_text() const {
  return scaling == 1.0 ? "" : " * " + exact(scaling);
}

void OwnScoreParams::describe(ParamVisitor& v) {
  SelectionParams::describe(v);
  v("normalize", normalize, "divide the chosen scores by their sum (unless k = 1)");
}

RouterRule OwnScoreParams::rule_for(ScoreKind score) const {
  RouterRule rule = SelectionParams::rule();
  rule.score = score;
  rule.key_is_logit = false;
  rule.weights = normalize ? WeightRule::normalized : WeightRule::raw;
  return rule;
}

std::string OwnScoreParams::formula_for(const std::string& score) const {
  return str("scores s = ", score, "; choose ", selection_text("s"), "; weights w_i = s_i",
             normalize && k > 1 ? " / (sum over chosen s_j + 1e-20)" : "", scaling_text());
}

TopKRouter::TopKRouter(const SelectionParams& params, const RouterRule& rule,
                       const Context& context)
    : params_(params),
      rule_(rule),
      noise_name_(context.name + ".jitter"),
      experts_(context.experts),
      compute_(compute_dtype(params.dtype, context.dtype)) {
  const Init normal{Init::Kind::normal, context.init_std};
  weight_EH_ = make_parameter(context.backend, context.dtype, context.name + ".weight",
                              {context.experts, context.hidden}, normal, true);
  if (params.bias)
    bias_E_ = make_parameter(context.backend, context.dtype, context.name + ".bias",
                             {context.experts}, {Init::Kind::zeros, 0}, false);
}

Variable TopKRouter::jittered(Tape& tape, const RouterInput& input) const {
  if (params_.jitter <= 0) return input.x_TH;
  const Tensor noise_TH = tape.backend().empty_like(input.x_TH.value);
  const bool replayed = input.noise && *input.noise && (*input.noise)(noise_name_, noise_TH);
  if (!replayed && input.moment.phase != Phase::train) return input.x_TH;
  if (!replayed) {
    const Rng rng(input.moment.seed, kJitterStream, salt_of(input.moment, input.layer));
    draw_jitter(rng, params_.jitter, input.tokens, noise_TH);
  }
  return multiply(tape, input.x_TH, noise_TH);
}

Routing TopKRouter::route(Tape& tape, const RouterInput& input) {
  if (input.forced) {
    const auto pairs = static_cast<Index>(input.forced->expert_P.size());
    MOELAB_CHECK(pairs == input.tokens.count() * rule_.k, "forced routing of ", pairs,
                 " pairs for ", input.tokens.count(), " tokens and k ", rule_.k);
    for (const std::int32_t e : input.forced->expert_P)
      MOELAB_CHECK(e >= -1 && e < experts_, "forced expert ", e, " of ", experts_);
  }
  const Variable weight = tape.leaf(weight_EH_);
  const Variable bias = params_.bias ? tape.leaf(bias_E_) : Variable{};
  Routing out;
  out.logits_TE =
      gating(tape, jittered(tape, input), weight, params_.bias ? &bias : nullptr, compute_);
  RouterScores scores =
      router_select(tape, out.logits_TE, rule_, input.bias_E, input.tokens.valid_T,
                    input.forced ? &input.forced->expert_P : nullptr, input.x_TH.value.dtype());
  out.weight_P = scores.weight_P;
  out.scores_TE = scores.scores_TE;
  out.plan = uniform_plan(input.tokens.count(), experts_, rule_.k, std::move(scores.expert_P));
  return out;
}

void TopKRouter::parameters(const std::function<void(Parameter&)>& visit) {
  visit(weight_EH_);
  if (params_.bias) visit(bias_E_);
}

}  // namespace moelab
