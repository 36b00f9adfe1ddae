// DeepSpeed's gates on recorded noise: router, dropper and balancing loss together, forward and
// backward. Its slot of a pair is the pair's place among its expert's kept ones. S tokens, E
// experts, C slots, P pair slots, k choices.
#include <algorithm>
#include <cmath>

#include "core/autograd/functions.h"
#include "registry/text.h"
#include "tests/golden_tests/deepspeed.h"
#include "tests/moe/moe_fixture.h"

namespace moelab::test {
namespace {

constexpr DType kDType = DType::f32;
constexpr double kTolerance = golden_tolerance(kDType);

// Theirs are rounded to bfloat16: equal where ours lies in their rounding.
Values as_bfloat16(Values got, const Values& want) {
  constexpr double kHalfStep = 0x1p-8 * 1.001;
  for (std::size_t i = 0; i < std::min(got.size(), want.size()); ++i)
    if (std::abs(got[i] - want[i]) <= kHalfStep * std::abs(want[i])) got[i] = want[i];
  return got;
}

class GateCase {
 public:
  explicit GateCase(const GoldenCase& c)
      : c_(c),
        gate_(deepspeed_gate(c)),
        noise_(recorded_noise(c)),
        backend_(Backend::cpu()),
        tokens_(make_tokens(*backend_, 1, c.integer("tokens"))),
        experts_(c.integer("experts")),
        tape_(*backend_) {
    moment_.phase = gate_.phase;
    const bool whole = c.has("weight");
    const Index hidden = whole ? c.integer("model") : experts_;
    router_ = component<Router>(gate_.router)
                  .make({*backend_, kDType, hidden, experts_, 0, "test.gate", 0.02, state_});
    const Values weight = whole ? c.tensor("weight").values : identity();
    router_->parameters(
        [&](Parameter& p) { copy(reals(*backend_, kDType, p.value.shape(), weight), p.value); });
    x_ = tape_.input(reals(*backend_, kDType, {tokens_.count(), hidden},
                           c.tensor(whole ? "input" : "logits").values));
  }

  Outcome compare() {
    route();
    drop();
    const LossTerm loss =
        BalancerBench(gate_.balancer, experts_, gate_.k, kDType).loss(tape_, routing_, tokens_, 1);
    compare_routing();
    to_.same("l_aux", doubles(loss.value.value), c_.tensor("l_aux"), kTolerance);
    tape_.seed(loss.value, 1.0);
    compare_gradients();
    return to_.outcome();
  }

 private:
  Values identity() const {
    Values out(static_cast<std::size_t>(experts_ * experts_), 0.0);
    for (Index e = 0; e < experts_; ++e) out[static_cast<std::size_t>(e * experts_ + e)] = 1;
    return out;
  }

  void route() {
    RouterInput input{x_, tokens_, moment_, 0, nullptr, &noise_, {}, {}, nullptr};
    ForcedRouting forced;
    if (c_.has("used_token")) {
      Tape free(*backend_, Tape::Mode::forward);
      forced = without_unused(*router_->route(free, input).plan, c_.tensor("used_token").values);
      input.forced = &forced;
    }
    routing_ = router_->route(tape_, input);
    routing_.plan->validate();
  }

  void drop() {
    const Component<Dropper> chosen = component<Dropper>(gate_.dropper);
    const ScopeMap scope({}, tokens_, nullptr);
    RoutingPlan& plan = *routing_.plan;
    chosen.make({experts_, gate_.k, 0, "test.dropper"})
        ->drop(plan, routing_.weight_P.value,
               {tokens_, moment_, 0, experts_, gate_.k,
                [&](ScopeSpec) -> const ScopeMap& { return scope; }, &noise_});
    plan.validate();
    weight_P_ = routing_.weight_P;
    if (!chosen.traits().renormalizes) return;
    std::vector<Index> offset_T1;
    for (Index t = 0; t <= plan.tokens; ++t) offset_T1.push_back(plan.begin(t));
    std::vector<std::uint8_t> kept_P;
    for (const PairFate fate : plan.fate_P) kept_P.push_back(fate == PairFate::kept);
    weight_P_ =
        renormalize_weights(tape_, weight_P_, offset_T1, kept_P, chosen.traits().renormalize_floor);
  }

  // The place of each pair among its expert's kept ones; −1 for the others.
  std::vector<Index> slots() const {
    const RoutingPlan& plan = *routing_.plan;
    std::vector<Index> slot(plan.expert_P.size(), -1), next(static_cast<std::size_t>(experts_), 0);
    const Index ranks = gate_.by_choice_rank ? gate_.k : 1;
    for (Index rank = 0; rank < ranks; ++rank)
      for (Index t = 0; t < plan.tokens; ++t)
        for (Index p = plan.begin(t); p < plan.end(t); ++p) {
          const auto at = static_cast<std::size_t>(p);
          if (plan.fate_P[at] != PairFate::kept) continue;
          if (ranks > 1 && p - plan.begin(t) != rank) continue;
          slot[at] = next[static_cast<std::size_t>(plan.expert_P[at])]++;
        }
    return slot;
  }
  // Calls body(pair, place in [S·E·C], place in [k·S]) for kept pairs; where more are kept than
  // they have slots, the masks differ all the same.
  void each_kept(Index slots_each,
                 const std::function<void(std::size_t, std::size_t, std::size_t)>& body) const {
    const RoutingPlan& plan = *routing_.plan;
    for (Index t = 0; t < plan.tokens; ++t)
      for (Index p = plan.begin(t); p < plan.end(t); ++p) {
        const auto at = static_cast<std::size_t>(p);
        const Index slot = slot_P_[at];
        if (slot >= 0 && slot < slots_each)
          body(at, static_cast<std::size_t>((t * experts_ + plan.expert_P[at]) * slots_each + slot),
               static_cast<std::size_t>((p - plan.begin(t)) * plan.tokens + t));
      }
  }

  void compare_routing() {
    const RoutingPlan& plan = *routing_.plan;
    const std::vector<Index> counts = plan.counts_before_drop();
    to_.exact("exp_counts", counts, c_.tensor("exp_counts"));
    to_.exact("capacity", deepspeed_rows(gate_, plan.tokens, counts), c_.number("capacity"));
    const Values weight = doubles(weight_P_.value);
    slot_P_ = slots();
    Values mask(c_.tensor("dispatch_mask").values.size(), 0.0), combine = mask;
    Values ids(static_cast<std::size_t>(gate_.k * plan.tokens), -1.0), locations(ids.size(), 0.0),
        gates = locations;
    each_kept(c_.tensor("dispatch_mask").size(2),
              [&](std::size_t pair, std::size_t cell, std::size_t route) {
                mask[cell] = 1;
                combine[cell] = gates[route] = weight[pair];
                ids[route] = plan.expert_P[pair];
                locations[route] = static_cast<double>(slot_P_[pair]);
              });
    to_.exact("dispatch_mask", mask, c_.tensor("dispatch_mask"));
    to_.same("combine_weights", combine, c_.tensor("combine_weights"), kTolerance);
    if (!c_.has("route_indices")) return;
    to_.exact("route_indices", ids, c_.tensor("route_indices"));
    to_.exact("route_locations", locations, c_.tensor("route_locations"));
    to_.same("route_gates", gates, c_.tensor("route_gates"), kTolerance);
  }

  void compare_gradients() {
    const GoldenTensor& cotangent = c_.tensor("cotangent");
    Values cotangent_P(slot_P_.size(), 0.0);
    each_kept(cotangent.size(2), [&](std::size_t pair, std::size_t cell, std::size_t) {
      cotangent_P[pair] = cotangent.values[cell];
    });
    tape_.seed(weight_P_, reals(*backend_, kDType, weight_P_.value.shape(), cotangent_P));
    tape_.backward();
    const Values dx = doubles(tape_.grad(x_.slot()));
    if (!c_.has("weight")) return to_.same("grad_logits", dx, c_.tensor("grad_logits"), kTolerance);
    to_.same("logits", doubles(routing_.logits_TE.value), c_.tensor("logits"), kTolerance);
    gradient("grad_input", dx);
    router_->parameters([&](Parameter& p) { gradient("grad_weight", doubles(p.grad)); });
  }
  void gradient(const std::string& name, const Values& got) {
    const Values& want = c_.tensor(name).values;
    const std::string dtype = c_.given("input_dtype") ? c_.text("input_dtype") : "float32";
    to_.same(name, dtype == "bfloat16" ? as_bfloat16(got, want) : got, want, kTolerance);
  }

  const GoldenCase& c_;
  DeepSpeedGate gate_;
  NoiseSource noise_;
  std::shared_ptr<Backend> backend_;
  Tokens tokens_;
  Index experts_;
  StateStore state_{"test"};
  Moment moment_;
  Tape tape_;
  std::unique_ptr<Router> router_;
  Variable x_, weight_P_;
  Routing routing_;
  std::vector<Index> slot_P_;
  Comparison to_;
};

Outcome run_case(const GoldenCase& c) {
  c.ignore({"scale", "skew", "ties", "used_share"});  // how the logits and the mask were made
  if (!c.flag("drop_tokens")) c.ignore({"rts"});      // drawn for nobody
  return GateCase(c).compare();
}

const RegisterSuite registered{"deepspeed_gates", run_case};

}  // namespace
}  // namespace moelab::test
