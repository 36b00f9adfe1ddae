#include "core/moe/capacity.h"

#include <algorithm>
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

}  // namespace

Index capacity(Index valid_tokens, Index k, Index experts, double factor, Index minimum) {
  MOELAB_CHECK(factor > 0 && experts > 0, "capacity factor ", factor, ", experts ", experts);
  const Decimal decimal = decimal_of(factor);
  constexpr Index kMostRows = std::numeric_limits<std::int32_t>::max();
  Wide above = decimal.digits * valid_tokens * k, below = experts;
  int exponent = decimal.exponent;
  for (; exponent > 0 && above < Wide{kMostRows} * below; --exponent) above *= 10;
  for (; exponent < 0 && below < above; ++exponent) below *= 10;
  const Wide rows = (above + below - 1) / below;
  return std::max(minimum, static_cast<Index>(std::min<Wide>(rows, kMostRows)));
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
  v("pad_to_capacity", pad_to_capacity,
    "fill every expert up to its capacity with zero rows: the same row counts in every step");
  v("renormalize", renormalize, "divide a token's kept weights by their sum");
  scope.describe(v);
}

void CapacityParams::check(const Dropper::Facts& facts, Checker& checker) const {
  scope.check(facts.rows_per_micro_batch, checker);
  if (!facts.dispatcher_takes_capacity)
    checker.error("capacity_factor",
                  "limits experts' rows, which this layer's dispatcher cannot; choose dropper "
                  "\"none\" or another dispatcher");
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
  traits.drops_in_inference = drop_in_inference;
  traits.scope = scope.spec();
  return traits;
}

std::string CapacityParams::formula(const std::string& who) const {
  return str("each expert keeps ", who, ", at most C = max(", min_capacity,
             ", ceil(valid tokens * k * ", exact(capacity_factor), " / experts)) in ", scope.text(),
             renormalize ? "; kept weights are divided by their sum" : "",
             pad_to_capacity ? "; zero rows fill up to C" : "");
}

double CapacityParams::factor(Phase phase) const {
  if (phase == Phase::train) return capacity_factor;
  if (phase == Phase::inference && !drop_in_inference) return 0;
  return eval_capacity_factor > 0 ? eval_capacity_factor : capacity_factor;
}

void CapacityDropper::drop(RoutingPlan& plan, const Tensor& weight_P, const DropInput& input) {
  const double factor = params_.factor(input.moment.phase);
  if (factor <= 0) return;
  const ScopeMap& scope = input.scope(params_.scope.spec());
  std::vector<Index> rows;
  for (const Index valid : scope.valid())
    rows.push_back(valid == 0 ? 0
                              : capacity(valid, input.k, experts_, factor, params_.min_capacity));
  limit(plan, weight_P, input.tokens, scope, rows);
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

}  // namespace moelab
