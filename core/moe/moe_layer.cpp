// T tokens, H hidden, E experts, P pair slots, R rows of local experts.
#include "core/moe/moe_layer.h"
#include "core/autograd/functions.h"

namespace moelab {
namespace {

Tensor add_bias(const Backend& backend, const Tensor& a, const Tensor& b) {
  const Tensor sum = backend.empty_like(a);
  dispatch_real(a.dtype(), "choice bias", [&](auto tag) {
    using T = decltype(tag);
    for (Index e = 0; e < a.numel(); ++e) sum.data<T>()[e] = a.data<T>()[e] + b.data<T>()[e];
  });
  return sum;
}

Variable renormalized(Tape& tape, const Routing& routing) {
  const RoutingPlan& plan = *routing.plan;
  std::vector<Index> offset_T1;
  for (Index t = 0; t <= plan.tokens; ++t) offset_T1.push_back(plan.begin(t));
  std::vector<std::uint8_t> kept_P;
  for (const PairFate fate : plan.fate_P) kept_P.push_back(fate == PairFate::kept);
  return renormalize_weights(tape, routing.weight_P, offset_T1, kept_P);
}

}  // namespace

const ScopeMap& ScopeMaps::get(ScopeSpec spec) {
  for (const auto& [known, map] : maps_)
    if (known.kind == spec.kind &&
        (spec.kind != ScopeKind::group || known.group_size == spec.group_size))
      return *map;
  maps_.emplace_back(spec, std::make_unique<ScopeMap>(spec, tokens_, dp_));
  return *maps_.back().second;
}

MoeLayer::MoeLayer(const MoeParams& params, const Context& context)
    : context_(context),
      state_(context.name),
      router_step_state_(context.name + ".gate"),
      experts_(params.num_experts) {
  Backend& backend = *context.ranks.backend;
  k_ = params.router.traits().k;
  router_ = params.router.make({backend, context.dtype, context.hidden, experts_, context.layer,
                                context.name + ".gate", context.router_init_std, state_});
  for (const auto& [label, balancer] : params.balancers.items()) {
    balancers_[label] =
        balancer.make({backend, context.dtype, experts_, k_, context.layer, label, state_});
    step_state_[label] = std::make_unique<StateStore>(context.name + "." + label);
  }
  renormalizes_ = params.dropper.traits().renormalizes;
  dropper_ = params.dropper.make({experts_, k_, context.layer});
  dispatcher_ = params.dispatcher.make({context.ranks, experts_});
  const Index ep = context.ranks.ep ? context.ranks.ep->size() : 1;
  const Index at = context.ranks.ep ? context.ranks.ep->rank() : 0;
  MOELAB_CHECK(experts_ % ep == 0, experts_, " experts over ", ep, " ranks");
  expert_layer_ = params.experts.make({backend, context.dtype, context.hidden, experts_,
                                       at * experts_ / ep, experts_ / ep, context.name + ".experts",
                                       context.init_std, context.output_init_std});
}

FfnOutput MoeLayer::forward(Tape& tape, const FfnInput& input) {
  const std::shared_ptr<ScopeMaps> scopes = scope_maps(tape, input);
  const Tensor bias_E = choice_bias();
  const auto scope = [scopes](ScopeSpec spec) -> const ScopeMap& { return scopes->get(spec); };
  Routing routing = router_->route(
      tape, {input.x_TH, input.tokens, input.moment, context_.layer, input.forced, input.noise,
             bias_E, input.previous_logits_TE, context_.ranks.dp, scope, &router_step_state_});
  // Dropping may be collective: a recomputed segment takes the plan of the first pass.
  routing.plan = tape.remember([&] {
    dropper_->drop(*routing.plan, routing.weight_P.value,
                   {input.tokens, input.moment, context_.layer, experts_, k_, scope});
    return routing.plan;
  });
  FfnOutput out;
  out.losses = losses(tape, routing, input, scopes);
  const Variable weight_P = renormalizes_ ? renormalized(tape, routing) : routing.weight_P;
  const Dispatched sent =
      dispatcher_->dispatch(tape, input.x_TH, *routing.plan, weight_P, input.tokens);
  const Variable y_RH = expert_layer_->forward(tape, sent.rows, sent.weight_R);
  out.y_TH = dispatcher_->combine(tape, y_RH, sent);
  if (!tape.replaying()) out.record = make_record(routing, input.tokens, bias_E, context_.layer);
  out.routing = std::make_shared<Routing>(std::move(routing));
  return out;
}

std::shared_ptr<ScopeMaps> MoeLayer::scope_maps(Tape& tape, const FfnInput& input) const {
  if (input.scopes) return input.scopes;
  return tape.remember(
      [&] { return std::make_shared<ScopeMaps>(input.tokens, context_.ranks.dp); });
}

BalancerInput MoeLayer::balancer_input(const std::string& label, const Routing& routing,
                                       const FfnInput& input,
                                       const std::shared_ptr<ScopeMaps>& scopes) {
  return {routing,
          input.tokens,
          input.moment,
          context_.layer,
          context_.ranks.dp,
          input.facts.instances_in_step,
          [scopes](ScopeSpec spec) -> const ScopeMap& { return scopes->get(spec); },
          input.facts.valid_tokens_in_step,
          *step_state_.at(label),
          router_.get(),
          expert_layer_.get()};
}

std::vector<LossTerm> MoeLayer::losses(Tape& tape, const Routing& routing, const FfnInput& input,
                                       const std::shared_ptr<ScopeMaps>& scopes) {
  std::vector<LossTerm> terms;
  if (input.moment.phase != Phase::train) return terms;
  for (const auto& [label, balancer] : balancers_) {
    auto term = balancer->loss(tape, balancer_input(label, routing, input, scopes));
    if (!term) continue;
    term->layer = context_.layer;
    terms.push_back(std::move(*term));
  }
  return terms;
}

std::vector<LossTerm> MoeLayer::pooled_losses(Tape& tape, std::span<const Routing> layers,
                                              const FfnInput& input) {
  std::vector<LossTerm> terms;
  if (input.moment.phase != Phase::train || layers.empty()) return terms;
  const std::shared_ptr<ScopeMaps> scopes = scope_maps(tape, input);
  for (const auto& [label, balancer] : balancers_) {
    auto term =
        balancer->pooled_loss(tape, layers, balancer_input(label, layers.front(), input, scopes));
    if (!term) continue;
    term->layer = -1;
    terms.push_back(std::move(*term));
  }
  return terms;
}

Tensor MoeLayer::choice_bias() const {
  Tensor sum;
  for (const auto& [label, balancer] : balancers_)
    if (const Tensor bias = balancer->bias())
      sum = sum ? add_bias(*context_.ranks.backend, sum, bias) : bias;
  return sum;
}

void MoeLayer::parameters(const std::function<void(Parameter&)>& visit) {
  router_->parameters(visit);
  expert_layer_->parameters(visit);
}

void MoeLayer::after_step(const StepLoad& load) {
  router_->after_step(load);
  for (const auto& [label, balancer] : balancers_) balancer->after_step(load);
}

void MoeLayer::begin_step() {
  router_step_state_ = StateStore(router_step_state_.prefix());
  for (const auto& [label, state] : step_state_) *state = StateStore(state->prefix());
}

}  // namespace moelab
