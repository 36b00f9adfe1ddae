// T tokens, H hidden, d latent width, E experts, P pair slots, R rows of local experts.
#include "core/moe/moe_layer.h"

#include <algorithm>

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

Variable renormalized(Tape& tape, const Routing& routing, double floor) {
  const RoutingPlan& plan = *routing.plan;
  std::vector<std::uint8_t> kept_P;
  for (const PairFate fate : plan.fate_P) kept_P.push_back(fate == PairFate::kept);
  return renormalize_weights(tape, routing.weight_P, plan.offsets(), kept_P, floor);
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
      networks_(params.num_experts),
      experts_(params.expert_ids()) {
  Backend& backend = *context.ranks.backend;
  const Router::Traits routing = params.router.traits();
  k_ = routing.k;
  router_ = params.router.make({backend, context.dtype, context.hidden, experts_, context.layer,
                                context.name + ".gate", context.router_init_std, state_});
  for (const auto& [label, balancer] : params.balancers.items()) {
    balancers_[label] = balancer.make(
        {backend, context.dtype, experts_, k_, context.layer, label, state_, routing.active()});
    step_state_[label] = std::make_unique<StateStore>(context.name + "." + label);
  }
  dropping_ = params.dropper.traits();
  dropper_ = params.dropper.make({experts_, k_, context.layer, context.name + ".dropper"});
  dispatcher_ = params.dispatcher.make({context.ranks, networks_});
  make_experts(params);
}

void MoeLayer::make_experts(const MoeParams& params) {
  Backend& backend = *context_.ranks.backend;
  const DType dtype = context_.dtype;
  const std::string& name = context_.name;
  const Index ep = context_.ranks.ep ? context_.ranks.ep->size() : 1;
  const Index at = context_.ranks.ep ? context_.ranks.ep->rank() : 0;
  MOELAB_CHECK(networks_ % ep == 0, networks_, " experts over ", ep, " ranks");
  const Index width = params.latent > 0 ? params.latent : context_.hidden;
  // Of two matrices into the residual stream only the last is the small one.
  const double down_std = params.latent > 0 ? context_.init_std : context_.output_init_std;
  expert_layer_ =
      params.experts.make({backend, dtype, width, networks_, at * networks_ / ep, networks_ / ep,
                           name + ".experts", context_.init_std, down_std});
  if (params.latent > 0) {
    latent_in_dH_ =
        make_parameter(backend, dtype, name + ".latent_in.weight", {params.latent, context_.hidden},
                       {Init::Kind::normal, context_.init_std}, true);
    latent_out_Hd_ = make_parameter(backend, dtype, name + ".latent_out.weight",
                                    {context_.hidden, params.latent},
                                    {Init::Kind::normal, context_.output_init_std}, true);
  }
  Index first = networks_;
  for (const auto& [label, free] : params.free_experts.items()) {
    free_experts_.push_back(free.make({backend, dtype, context_.hidden, first,
                                       str(name, ".free_experts.", label), context_.init_std}));
    first += free.traits().count;
  }
  shared_ = params.shared.make(
      {backend, dtype, context_.hidden, name, context_.init_std, context_.output_init_std});
}

FfnOutput MoeLayer::forward(Tape& tape, const FfnInput& input) {
  const std::shared_ptr<ScopeMaps> scopes = scope_maps(tape, input);
  Tensor bias_E = choice_bias();
  const auto scope = [scopes](ScopeSpec spec) -> const ScopeMap& { return scopes->get(spec); };
  RouterInput router_input{input.x_TH,
                           input.tokens,
                           input.moment,
                           context_.layer,
                           input.forced,
                           input.noise,
                           bias_E,
                           input.previous_logits_TE,
                           context_.ranks.dp,
                           scope,
                           &router_step_state_};
  const ChoicePricing price = pricing(input, scopes, bias_E);
  if (price) router_input.pricing = &price;
  if (input.forced) check_forced(*input.forced, experts_, k_, input.tokens, context_.layer);
  Routing routing = router_->route(tape, router_input);
  // Dropping may be collective: a recomputed segment takes the plan of the first pass.
  routing.plan = tape.remember([&] {
    dropper_->drop(*routing.plan, routing.weight_P.value,
                   {input.tokens, input.moment, context_.layer, experts_, k_, scope, input.noise});
    keep_free_pairs(*routing.plan, networks_);
    return routing.plan;
  });
  FfnOutput out;
  out.losses = losses(tape, routing, input, scopes);
  const Variable weight_P = dropping_.renormalizes
                                ? renormalized(tape, routing, dropping_.renormalize_floor)
                                : routing.weight_P;
  const Variable y_TH = networks(tape, input, *routing.plan, weight_P);
  out.y_TH =
      shared_->forward(tape, input.x_TH,
                       with_free_experts(tape, y_TH, input, *routing.plan, weight_P), input.tokens);
  if (!tape.replaying()) {
    out.record = make_record(routing, input.tokens, bias_E, context_.layer);
    out.record->weight_P = weight_P.value;
    if (input.forced && input.compare_forced)
      out.record->forced =
          forced_difference(*routing.plan, *own_choice(tape, router_input, bias_E).plan);
  }
  out.routing = std::make_shared<Routing>(std::move(routing));
  return out;
}

Variable MoeLayer::networks(Tape& tape, const FfnInput& input, const RoutingPlan& plan,
                            const Variable& weight_P) {
  const bool latent = latent_in_dH_.value.defined();
  const Variable x_TD = latent ? linear(tape, input.x_TH, tape.leaf(latent_in_dH_)) : input.x_TH;
  const Dispatched sent = free_experts_.empty()
                              ? dispatcher_->dispatch(tape, x_TD, plan, weight_P, input.tokens)
                              : dispatcher_->dispatch(tape, x_TD, network_pairs(plan, networks_),
                                                      weight_P, input.tokens);
  const Variable y_RD = expert_layer_->forward(tape, sent.rows, sent.weight_R);
  const Variable y_TD = dispatcher_->combine(tape, y_RD, sent);
  return latent ? linear(tape, y_TD, tape.leaf(latent_out_Hd_)) : y_TD;
}

Variable MoeLayer::with_free_experts(Tape& tape, const Variable& y_TH, const FfnInput& input,
                                     const RoutingPlan& plan, const Variable& weight_P) {
  const auto weight_T = [&](Index first, Index count) {
    return weight_of_experts(tape, plan, weight_P, first, count);
  };
  Variable y = y_TH;
  for (const auto& free : free_experts_)
    y = free->forward(tape, y, {input.x_TH, input.tokens, weight_T});
  return y;
}

ChoicePricing MoeLayer::pricing(const FfnInput& input, const std::shared_ptr<ScopeMaps>& scopes,
                                Tensor& used_E) {
  const bool prices = std::ranges::any_of(
      balancers_, [](const auto& balancer) { return balancer.second->prices(); });
  if (!prices || input.moment.phase != Phase::train) return {};
  return [this, &input, scopes, &used_E](const Tensor& key_TE, bool positive) {
    Tensor sum;
    for (const auto& [label, balancer] : balancers_) {
      const auto scope = [scopes](ScopeSpec spec) -> const ScopeMap& { return scopes->get(spec); };
      Tensor bias;
      if (balancer->prices())
        bias = balancer->price(key_TE, positive, {input.tokens, scope, *step_state_.at(label)});
      if (!bias) bias = balancer->bias();
      if (bias) sum = sum ? add_bias(*context_.ranks.backend, sum, bias) : bias;
    }
    used_E = sum;
    return sum;
  };
}

Routing MoeLayer::own_choice(Tape& tape, RouterInput input, const Tensor& bias_E) const {
  Tape aside(tape.backend(), Tape::Mode::forward);
  input.x_TH = aside.constant(input.x_TH.value);
  if (input.previous_logits_TE)
    input.previous_logits_TE = aside.constant(input.previous_logits_TE.value);
  input.forced = nullptr;
  input.bias_E = bias_E;
  input.pricing = nullptr;
  input.step_state = nullptr;  // what the step sums up is not touched
  return router_->route(aside, input);
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
          expert_layer_.get(),
          context_.ranks.ep};
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
  if (latent_in_dH_.value) {
    visit(latent_in_dH_);
    visit(latent_out_Hd_);
  }
  expert_layer_->parameters(visit);
  for (const auto& free : free_experts_) free->parameters(visit);
  shared_->parameters(visit);
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
