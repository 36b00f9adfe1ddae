#include "core/moe/fixed_choice.h"

#include <algorithm>

#include "core/moe/forced_routing.h"

namespace moelab {

class FixedChoiceRouter::Gate final : public GatedRouter {
 public:
  Gate(const FixedChoiceParams& params, const Context& context)
      : GatedRouter(params, context), rule_(params.rule()) {}
  Routing weigh(Tape& tape, const RouterInput& input, const std::vector<std::int32_t>* expert_P) {
    return route_top_k(tape, input, logits(tape, input), rule_, {}, expert_P);
  }
  Routing route(Tape& tape, const RouterInput& input) override {
    return weigh(tape, input, nullptr);
  }

 private:
  RouterRule rule_;
};

void FixedChoiceParams::describe(ParamVisitor& v) {
  v("k", k, "experts per token", at_least(1));
  v("weights", weights,
    "combine weights: uniform (1/k, no gate), or scores of a trained gate at the fixed experts");
  NormalizeParams::describe(v, "divide the experts' scores by their sum (unless k = 1)");
  v("scaling", scaling, "factor on the combine weights", greater_than(0));
  GateParams::describe(v);
}

void FixedChoiceParams::check(const Router::Facts& facts, Checker& checker) const {
  if (k > facts.experts)
    checker.error("k", "is more than the layer's ", facts.experts,
                  " experts; lower k or raise num_experts");
  if (facts.has_choice_bias)
    checker.error("",
                  "names its experts without regard to scores, so a choice bias has no effect; ",
                  "remove the balancer that adds one, or take another router");
  if (weights != FixedWeights::uniform) return NormalizeParams::check(checker);
  const auto unused = [&](std::string_view key, bool set) {
    if (set) checker.error(key, "has no effect on uniform weights; set weights or remove this");
  };
  const FixedChoiceParams plain;
  unused("normalize", normalize != plain.normalize);
  unused("normalize_epsilon", normalize_epsilon != plain.normalize_epsilon);
  unused("normalize_floor", normalize_floor != plain.normalize_floor);
  unused("normalize_power", normalize_power != plain.normalize_power);
  unused("normalize_single", normalize_single);
  unused("jitter", jitter > 0);
  unused("dtype", dtype != plain.dtype);
  unused("bias", bias);
  unused("gating_residual", gating_residual);
}

Router::Traits FixedChoiceParams::traits() const {
  Router::Traits traits = GateParams::traits();
  traits.k = k;
  if (weights == FixedWeights::uniform) {
    traits.has_gate = false;
    traits.parameters = [](Index, Index) { return Index{0}; };
  }
  return traits;
}

RouterRule FixedChoiceParams::rule() const {
  RouterRule rule;
  rule.k = k;
  rule.scaling = scaling;
  rule.score = weights == FixedWeights::softmax   ? ScoreKind::softmax
               : weights == FixedWeights::sigmoid ? ScoreKind::sigmoid
                                                  : ScoreKind::sqrtsoftplus;
  rule.key_is_logit = false;
  put(rule, WeightRule::raw);
  return rule;
}

std::string FixedChoiceParams::formula_for(const std::string& choice) const {
  const std::string factor = scaling == 1.0 ? "" : " * " + exact(scaling);
  if (weights == FixedWeights::uniform)
    return str("experts: ", choice, "; weights w_i = 1 / ", k, factor);
  return str("experts: ", choice, "; scores s = ", enum_name(weights), "(", logits_text(), ")",
             "; weights w_i = s_i", text(k), factor);
}

FixedChoiceRouter::FixedChoiceRouter(const FixedChoiceParams& params, const Context& context)
    : params_(params), experts_(context.experts) {
  if (params.weights != FixedWeights::uniform) gate_ = std::make_shared<Gate>(params, context);
}

std::vector<std::int32_t> FixedChoiceRouter::choices(const RouterInput& input) const {
  const Index tokens = input.tokens.count();
  const auto valid_T = input.tokens.valid_T.span<std::uint8_t>();
  std::vector<std::int32_t> expert_P(static_cast<std::size_t>(tokens * params_.k), -1);
  for (Index t = 0; t < tokens; ++t)
    if (valid_T[static_cast<std::size_t>(t)] != 0)
      choose(input, t, {expert_P.data() + t * params_.k, static_cast<std::size_t>(params_.k)});
  return expert_P;
}

// The choice is the score: 1/k at each chosen expert. What balancing losses see is then the load
// itself, and no gradient follows.
Routing FixedChoiceRouter::uniform(Tape& tape, const RouterInput& input,
                                   std::vector<std::int32_t> expert_P) const {
  const Backend& backend = tape.backend();
  const Index tokens = input.tokens.count(), k = params_.k;
  const DType dtype = input.x_TH.value.dtype();
  const Tensor weight_P = backend.zeros(dtype, {tokens * k});
  const Tensor scores_TE = backend.zeros(dtype, {tokens, experts_});
  dispatch_real(dtype, "fixed choice", [&](auto zero) {
    using T = decltype(zero);
    for (Index t = 0; t < tokens; ++t) {
      const std::int32_t* chosen = expert_P.data() + t * k;
      const auto present = k - std::count(chosen, chosen + k, -1);
      for (Index i = 0; i < k; ++i) {
        if (chosen[i] < 0) continue;
        const double share = 1.0 / static_cast<double>(present);
        weight_P.data<T>()[t * k + i] = static_cast<T>(params_.scaling * share);
        scores_TE.data<T>()[t * experts_ + chosen[i]] = static_cast<T>(share);
      }
    }
  });
  Routing out;
  out.weight_P = tape.constant(weight_P);
  out.scores_TE = tape.constant(scores_TE);
  out.logits_TE = tape.constant(backend.zeros(dtype, {tokens, experts_}));
  out.plan = uniform_plan(tokens, experts_, k, std::move(expert_P));
  return out;
}

Routing FixedChoiceRouter::route(Tape& tape, const RouterInput& input) {
  if (gate_) {
    const auto expert_P = input.forced ? std::vector<std::int32_t>{} : choices(input);
    return gate_->weigh(tape, input, &expert_P);
  }
  return uniform(tape, input,
                 input.forced ? forced_ids(input, params_.k, experts_) : choices(input));
}

void FixedChoiceRouter::parameters(const std::function<void(Parameter&)>& visit) {
  if (gate_) gate_->parameters(visit);
}

Parameter* FixedChoiceRouter::gate() { return gate_ ? gate_->gate() : nullptr; }

void draw_distinct(const Rng& rng, std::uint64_t first, Index experts,
                   std::span<std::int32_t> chosen) {
  std::vector<std::int32_t> taken;  // ascending
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    // The r-th of the experts not taken yet.
    auto r =
        static_cast<std::int32_t>(rng.below(first + i, static_cast<std::uint64_t>(experts) - i));
    auto at = taken.begin();
    for (; at != taken.end() && r >= *at; ++at) ++r;
    taken.insert(at, r);
    chosen[i] = r;
  }
}

}  // namespace moelab
