#include "core/moe/moe_params.h"

#include <algorithm>
#include <cmath>

namespace moelab {
namespace {

// False for a component that the recipe names wrongly: that is already reported.
bool usable(const Slot& slot) {
  const auto known = slot.known();
  return slot.chosen() || std::any_of(known.begin(), known.end(), [&](const EntryBase* entry) {
           return entry->name == slot.name();
         });
}

constexpr const char* kDropGap =
    "pairs over capacity are dropped in training and evaluation, none in generation";

class MoeChecks {
 public:
  MoeChecks(const MoeParams& params, const Ffn::Facts& facts, Checker& checker)
      : params_(params),
        facts_(facts),
        checker_(checker),
        networks_(params.num_experts),
        experts_(params.expert_ids()) {
    if (usable(params.router)) router_ = params.router.traits();
    for (const auto& [label, balancer] : params.balancers.items())
      if (usable(balancer)) has_bias_ = has_bias_ || balancer.traits().has_bias;
  }

  void run() {
    if (facts_.ep > 0 && networks_ % facts_.ep != 0)
      checker_.error("num_experts", "must be divisible by parallel.ep = ", facts_.ep,
                     "; every rank of an expert-parallel group holds as many experts");
    if (usable(params_.router)) check_router();
    for (const auto& [label, balancer] : params_.balancers.items())
      if (usable(balancer)) check_balancer(label, balancer);
    if (usable(params_.dispatcher)) check_dispatcher();
    if (usable(params_.dropper)) check_dropper();
    if (usable(params_.experts)) {
      const Index width = params_.latent > 0 ? params_.latent : facts_.hidden;
      params_.experts.check({width, networks_, facts_.ep}, checker_.report());
    }
    if (usable(params_.shared)) params_.shared.check({facts_.hidden}, checker_.report());
    for (const auto& [label, free] : params_.free_experts.items())
      if (usable(free)) free.check({facts_.hidden}, checker_.report());
    if (params_.latent > facts_.hidden)
      checker_.error("latent", "is more than model.hidden = ", facts_.hidden,
                     "; a latent width saves nothing unless it is smaller");
  }

 private:
  void check_router() {
    Checker at = checker_.under("router");
    params_.router.check({facts_.hidden, experts_, facts_.generates, has_bias_,
                          facts_.rows_per_micro_batch, facts_.dp},
                         checker_.report());
    check_group_size(router_.scope, at);
    if (router_.k > experts_)
      at.error("k", "is more than the layer's ", experts_,
               " experts; lower k or raise num_experts");
    if (!router_.causal && !router_.non_causal_allowed) refuse_non_causal(at);
    if (!router_.causal && router_.scope && facts_.evaluates)
      check_evaluation(*router_.scope, false, at);
    for (const std::string& gap : router_.train_inference_gap)
      at.warning("", "differs between training and inference: ", gap);
  }

  // The router's own key, if it has one, is the shortest way out.
  void refuse_non_causal(Checker& at) const {
    constexpr const char* kWhy =
        "is not causal: a token's experts depend on later tokens, so text ";
    if (facts_.generates)
      at.error("", kWhy,
               "cannot be generated; set sample.every = 0 and sample.final = false, or take a "
               "causal router");
    if (facts_.evaluates)
      at.error("", kWhy,
               "would be measured with knowledge of its future; set eval.every = 0 and eval.final "
               "= false, or say so with the router's allow_non_causal = true");
  }

  void check_balancer(const std::string& label, const Component<Balancer>& balancer) {
    balancer.check({experts_, router_.k, facts_.rows_per_micro_batch, facts_.dp,
                    facts_.micro_batches, router_.active(), router_.has_gate},
                   checker_.report());
    Checker at = checker_.under("balancers").under(label);
    check_group_size(balancer.traits().scope, at);
  }

  void check_dispatcher() {
    const auto before = errors();
    params_.dispatcher.check({facts_.ep, networks_}, checker_.report());
    const bool silent = errors() == before;  // the component's own words come first
    if (silent && params_.dispatcher.traits().needs_single_rank && facts_.ep > 1)
      checker_.under("dispatcher")
          .error("", "works only with parallel.ep = 1, not ", facts_.ep,
                 "; take \"auto\" or \"alltoall\"");
  }

  void check_dropper() {
    const bool takes_capacity =
        !usable(params_.dispatcher) || params_.dispatcher.traits().takes_capacity;
    const auto before = errors();
    params_.dropper.check({experts_, router_.k, facts_.rows_per_micro_batch, facts_.dp,
                           facts_.length, takes_capacity, facts_.generates},
                          checker_.report());
    const bool silent = errors() == before;  // the component's own words come first
    const Dropper::Traits traits = params_.dropper.traits();
    Checker at = checker_.under("dropper");
    check_group_size(traits.scope, at);
    if (silent && (traits.drops || traits.pads) && !takes_capacity)
      at.error("", "sets a capacity, which the dispatcher \"", params_.dispatcher.name(),
               "\" cannot handle; take dispatcher \"auto\" or dropper \"none\"");
    if (silent && traits.pads && traits.scope && !inside_rank(*traits.scope))
      at.error("scope", "spans ranks, but padding to capacity needs a scope inside a rank; take ",
               "\"sequence\", or \"group\" with a group_size that divides the ", rows_per_rank(),
               " rows of a rank, or do not pad");
    if (silent && traits.scope) check_evaluation(*traits.scope, traits.pads, at);
    if (traits.drops && !traits.drops_in_inference)
      at.warning("", "differs between training and inference: ", kDropGap);
  }

  // Evaluation drops as training does, on batches of its own size.
  void check_evaluation(const ScopeSpec& scope, bool inside_rank, Checker& at) {
    if (scope.kind != ScopeKind::group || scope.group_size < 1) return;
    const Index ranks = inside_rank ? std::max<Index>(1, facts_.dp) : 1;
    if (facts_.rows_per_evaluation % (scope.group_size * ranks) != 0 &&
        facts_.rows_per_evaluation != facts_.rows_per_micro_batch)
      at.error("group_size", "must divide the ", facts_.rows_per_evaluation / ranks,
               " sequences of a held-out batch", ranks > 1 ? " on a rank" : "",
               " too; change eval.batch");
  }

  void check_group_size(const std::optional<ScopeSpec>& scope, Checker& at) {
    if (!scope || scope->kind != ScopeKind::group || facts_.rows_per_micro_batch < 1) return;
    if (scope->group_size < 1 || facts_.rows_per_micro_batch % scope->group_size != 0)
      at.error("group_size", "must divide the ", facts_.rows_per_micro_batch,
               " sequences of a global micro-batch (train.batch / train.accumulate)");
  }

  std::ptrdiff_t errors() const {
    const auto& problems = checker_.report().problems();
    return std::count_if(problems.begin(), problems.end(), [](const Problem& problem) {
      return problem.severity == Problem::Severity::error;
    });
  }
  Index rows_per_rank() const {
    return facts_.rows_per_micro_batch / std::max<Index>(1, facts_.dp);
  }
  bool inside_rank(const ScopeSpec& scope) const {
    if (facts_.dp <= 1 || scope.kind == ScopeKind::sequence) return true;
    return scope.kind == ScopeKind::group && scope.group_size > 0 &&
           rows_per_rank() % scope.group_size == 0;
  }

  const MoeParams& params_;
  const Ffn::Facts& facts_;
  Checker& checker_;
  Index networks_, experts_;  // experts with weights; all expert ids
  Router::Traits router_;
  bool has_bias_ = false;
};

}  // namespace

void MoeParams::describe(ParamVisitor& v) {
  v("num_experts", num_experts, "experts of the layer, over all ranks", between(1, 1e6));
  v("router", router, "which experts a token goes to, and with which weight");
  v("balancers", balancers, "losses and controllers that keep the experts evenly used, by label");
  v("dropper", dropper, "what happens to pairs over an expert's capacity");
  v("dispatcher", dispatcher, "how rows reach the rank that holds their expert");
  v("experts", experts, "the experts' networks");
  v("free_experts", free_experts,
    "experts that cost next to nothing, by label: routed and counted like the others, computed "
    "where "
    "the token is");
  v("shared", shared, "what runs beside the routed experts, for every token");
  v("latent", latent,
    "width in which tokens travel and experts work, between two projections of the layer's own; "
    "the "
    "router and what is shared read the full width; 0: the full width",
    between(0, 1e9));
}

Index MoeParams::expert_ids() const {
  Index ids = num_experts;
  for (const auto& [label, free] : free_experts.items())
    if (usable(free)) ids += free.traits().count;
  return ids;
}

void check_moe(const MoeParams& params, const Ffn::Facts& facts, Checker& checker) {
  MoeChecks(params, facts, checker).run();
}

Ffn::Traits moe_traits(const MoeParams& params) {
  const Router::Traits router = params.router.traits();
  const Dropper::Traits dropper = params.dropper.traits();
  Ffn::Traits traits;
  traits.moe = true;
  traits.causal = (router.causal || router.non_causal_allowed) && !dropper.drops_in_inference;
  traits.experts = params.expert_ids();
  traits.evaluable = router.causal || router.non_causal_allowed;
  traits.free_experts = traits.experts - params.num_experts;
  traits.width = params.experts.traits().width;
  traits.reads_previous_logits = router.reads_previous_logits;
  traits.cost = [params](Index hidden, Index ep) { return moe_cost(params, hidden, ep); };
  for (const auto& [label, balancer] : params.balancers.items())
    if (balancer.traits().sums_layers) traits.sums_layers = label;
  traits.train_inference_gap = router.train_inference_gap;
  if (dropper.drops && !dropper.drops_in_inference)
    traits.train_inference_gap.emplace_back(kDropGap);
  return traits;
}

std::string moe_formula(const MoeParams& params) {
  std::string out;
  const auto add = [&](std::string_view what, const Slot& slot) {
    const std::string formula = slot.formula();
    if (!formula.empty()) out += str(what, " (", slot.name(), "): ", formula, "\n");
  };
  add("route", params.router);
  for (const auto& [label, balancer] : params.balancers.items()) add("balance " + label, balancer);
  add("drop", params.dropper);
  if (params.latent > 0)
    out += str("latent: z = A x of width ", params.latent,
               " is what experts get instead of x; the networks' sum times B comes back\n");
  add("experts", params.experts);
  Index first = params.num_experts;
  for (const auto& [label, free] : params.free_experts.items()) {
    const Index last = first + free.traits().count - 1;
    add(str("experts ", first, " to ", last), free);
    first = last + 1;
  }
  out += "combine: y = sum over a token's kept experts of weight * expert(x)\n";
  add("shared", params.shared);
  return out;
}

}  // namespace moelab
