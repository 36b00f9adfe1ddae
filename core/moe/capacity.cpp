#include "core/moe/capacity.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/check.h"

namespace moelab {
namespace {

__extension__ typedef __int128 Wide;

// The decimal that `value` prints as: digits · 10^exponent.
struct Decimal {
  Wide digits = 0;
  int exponent = 0;
};

Decimal decimal_of(double value) {
  const std::string text = exact(value);
  Decimal out;
  bool after_point = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '.') {
      after_point = true;
    } else if (c == 'e' || c == 'E') {
      out.exponent += std::stoi(text.substr(i + 1));
      break;
    } else {
      out.digits = out.digits * 10 + (c - '0');
      out.exponent -= after_point ? 1 : 0;
    }
  }
  return out;
}

constexpr Index kMostRows = std::numeric_limits<std::int32_t>::max();

struct Ratio {
  Wide above = 0, below = 1;
};

// count · factor / experts, exact between 1 and kMostRows; beyond them it stays beyond.
Ratio even_share(Wide count, Index experts, double factor) {
  MOELAB_CHECK(factor > 0 && experts > 0, "capacity factor ", factor, ", experts ", experts);
  const Decimal decimal = decimal_of(factor);
  Ratio ratio{decimal.digits * count, experts};
  int exponent = decimal.exponent;
  for (; exponent > 0 && ratio.above < Wide{kMostRows} * ratio.below; --exponent) ratio.above *= 10;
  for (; exponent < 0 && ratio.below < ratio.above; ++exponent) ratio.below *= 10;
  return ratio;
}

}  // namespace

Index capacity(Index valid_tokens, Index k, Index experts, double factor, Index minimum) {
  const Ratio share = even_share(Wide{valid_tokens} * k, experts, factor);
  const Wide rows = (share.above + share.below - 1) / share.below;
  return std::max(minimum, static_cast<Index>(std::min<Wide>(rows, kMostRows)));
}

Index deepspeed_capacity(Index valid_tokens, Index k, Index experts, double factor, Index minimum) {
  const auto share =
      static_cast<float>(static_cast<double>(valid_tokens) / static_cast<double>(experts));
  const auto multiple = static_cast<float>(static_cast<double>(k) * factor);
  constexpr float kMostAsFloat = 0x1p30F;
  return std::max(minimum, static_cast<Index>(std::ceil(std::min(share * multiple, kMostAsFloat))));
}

Index whole_share(Index valid_tokens, Index experts, double mean_k) {
  const Ratio share = even_share(valid_tokens, experts, mean_k);
  const Wide rows = share.above / share.below;
  return std::max<Index>(1, static_cast<Index>(std::min<Wide>(rows, kMostRows)));
}

void CapacityParams::describe(ParamVisitor& v) {
  v("capacity_factor", capacity_factor,
    "rows an expert may take in a scope, as a multiple of its even share (tokens * k / experts)",
    {0.0, 1000.0, true});
  v("eval_capacity_factor", eval_capacity_factor,
    "the factor in evaluation; 0: the same as in training", between(0, 1000));
  v("drop_in_inference", drop_in_inference,
    "drop in inference too, with the factor of evaluation; else inference drops nothing");
  v("min_capacity", min_capacity, "least rows an expert may take", at_least(0));
  v("capacity_rule", rule,
    "how the capacity is rounded: the exact ceiling, or DeepSpeed's product in float32");
  v("pad_to_capacity", pad_to_capacity,
    "fill every expert up to its capacity with zero rows: the same row counts in every step");
  v("renormalize", renormalize,
    "divide a token's kept weights by their sum, so that dropped weight is redistributed and not "
    "lost");
  v("renormalize_floor", renormalize_floor,
    "with renormalize: divide by no less than this (DeepSpeed 1.1920929e-7)", at_least(0));
  scope.describe(v);
}

void CapacityParams::check(const Dropper::Facts& facts, Checker& checker) const {
  scope.check(facts.rows_per_micro_batch, checker);
  if (!facts.dispatcher_takes_capacity)
    checker.error("capacity_factor",
                  "limits experts' rows, which this layer's dispatcher cannot; choose dropper "
                  "\"none\" or another dispatcher");
  if (renormalize_floor > 0 && !renormalize)
    checker.error("renormalize_floor",
                  "has no effect without renormalize = true; set it or remove this");
  if (pad_to_capacity && facts.ranks > 1 &&
      !scope.inside_rank(facts.rows_per_micro_batch, facts.ranks))
    checker.error("pad_to_capacity",
                  "needs a scope that lies inside a rank; set scope = \"sequence\", or \"group\" "
                  "with a group_size that divides a rank's ",
                  facts.rows_per_micro_batch / facts.ranks, " sequences");
  if (facts.generates && drop_in_inference)
    checker.error("drop_in_inference",
                  "does not go with generation: which tokens are dropped depends on later ones; "
                  "set it to false, or sample.final = false and sample.every = 0");
}

Dropper::Traits CapacityParams::traits() const {
  Dropper::Traits traits;
  traits.drops = true;
  traits.pads = pad_to_capacity;
  traits.renormalizes = renormalize;
  traits.renormalize_floor = renormalize_floor;
  traits.drops_in_inference = drop_in_inference;
  traits.scope = scope.spec();
  return traits;
}

std::string CapacityParams::formula(const std::string& who) const {
  const std::string even =
      rule == CapacityRule::exact
          ? str("ceil(valid tokens * k * ", exact(capacity_factor), " / experts)")
          : str("ceil(f32(valid tokens / experts) * f32(k * ", exact(capacity_factor), "))");
  return str("each expert keeps ", who, ", at most C = max(", min_capacity, ", ", even, ") in ",
             scope.text(), renormalize ? "; kept weights are divided by their sum" : "",
             renormalize_floor > 0 ? str(", at least ", exact(renormalize_floor)) : "",
             pad_to_capacity ? "; zero rows fill up to C" : "");
}

double CapacityParams::factor(Phase phase) const {
  if (phase == Phase::train) return capacity_factor;
  if (phase == Phase::inference && !drop_in_inference) return 0;
  return eval_capacity_factor > 0 ? eval_capacity_factor : capacity_factor;
}

Index CapacityParams::rows(Index valid_tokens, Index k, Index experts, double factor) const {
  return rule == CapacityRule::exact
             ? capacity(valid_tokens, k, experts, factor, min_capacity)
             : deepspeed_capacity(valid_tokens, k, experts, factor, min_capacity);
}

// Where k varies, the pairs that there are take the place of tokens · k.
std::vector<Index> CapacityDropper::capacities(const RoutingPlan& plan, const DropInput& input,
                                               const ScopeMap& scope, double factor) const {
  std::vector<Index> rows;
  if (input.k > 0) {
    for (const Index valid : scope.valid())
      rows.push_back(valid == 0 ? 0 : params_.rows(valid, input.k, experts_, factor));
    return rows;
  }
  const Tensor pairs = Backend::cpu()->zeros(DType::i64, {scope.instances()});
  auto* count = pairs.data<std::int64_t>();
  for (Index t = 0; t < plan.tokens; ++t)
    for (Index p = plan.begin(t); p < plan.end(t); ++p)
      count[scope.instance_of(t)] += plan.expert_P[static_cast<std::size_t>(p)] >= 0 ? 1 : 0;
  scope.reduce(pairs);
  for (const Index routed : pairs.span<std::int64_t>())
    rows.push_back(routed == 0 ? 0 : params_.rows(routed, 1, experts_, factor));
  return rows;
}

void CapacityDropper::drop(RoutingPlan& plan, const Tensor& weight_P, const DropInput& input) {
  const double factor = params_.factor(input.moment.phase);
  if (factor <= 0) return;
  const ScopeMap& scope = input.scope(params_.scope.spec());
  const std::vector<Index> rows = capacities(plan, input, scope, factor);
  limit(plan, weight_P, input, scope, rows);
  if (params_.pad_to_capacity) pad(plan, scope, rows);
}

void CapacityDropper::pad(RoutingPlan& plan, const ScopeMap& scope,
                          const std::vector<Index>& capacity_of) const {
  MOELAB_CHECK(scope.inside_rank(), "padding to a capacity that ranks share");
  Index total = 0;
  for (const Index rows : capacity_of) total += rows;
  plan.filler_E = plan.counts_kept();
  for (Index& rows : plan.filler_E) rows = total - rows;
}

void keep_first(RoutingPlan& plan, const Tokens& tokens, const ScopeMap& scope,
                const std::vector<Index>& capacity,
                const std::function<PairPriority(Index, Index)>& priority) {
  Candidates candidates;
  std::vector<std::size_t> pair_of;
  for (Index t = 0; t < plan.tokens; ++t)
    for (Index p = plan.begin(t); p < plan.end(t); ++p) {
      const auto at = static_cast<std::size_t>(p);
      if (plan.fate_P[at] != PairFate::kept) continue;
      const PairPriority order = priority(t, p);
      candidates.token.push_back(t);
      candidates.expert.push_back(plan.expert_P[at]);
      candidates.score.push_back(order.score);
      candidates.tier.push_back(order.tier);
      pair_of.push_back(at);
    }
  const auto keep = select_top_c(candidates, capacity, plan.experts, scope, tokens);
  for (std::size_t i = 0; i < keep.size(); ++i)
    if (keep[i] == 0) plan.fate_P[pair_of[i]] = PairFate::capacity;
}

}  // namespace moelab
