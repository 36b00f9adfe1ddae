// Holds the number of experts a token uses at the router's mean_k: an L1 loss on the combine
// weights whose coefficient grows while tokens use more experts than that and shrinks while they
// use fewer (ReMoE, Wang et al. 2024, arXiv:2412.14711). T valid tokens of an instance, L layers, E
// experts, P pairs, G scope instances.
#include <cmath>

#include "core/autograd/functions.h"
#include "core/moe/balancer.h"

namespace moelab {
namespace {

constexpr const char* kRouted = "routed";
constexpr const char* kTokens = "tokens";

class ReluSparsity final : public Balancer {
 public:
  struct Params {
    double start = 1e-8, rate = 1.2;
    bool by_load = true, pooled = true;
    ScopeParams scope;
    void describe(ParamVisitor& v) {
      v("start", start, "the loss's coefficient in the first step", greater_than(0));
      v("rate", rate, "what a step multiplies the coefficient by, or divides it", greater_than(1));
      v("by_load", by_load, "weigh each expert's part by its load, so that the loss balances too");
      v("pooled", pooled,
        "one loss and one coefficient for all MoE layers together, kept by the first; else one a "
        "layer");
      scope.describe(v);
    }
    void check(const Balancer::Facts& facts, Checker& checker) const {
      scope.check(facts.rows_per_micro_batch, checker);
      if (facts.k > 0)
        checker.error("",
                      "moves the number of experts a token uses, but the layer's router always ",
                      "takes ", facts.k, "; take router \"relu\"");
    }
    Balancer::Traits traits() const { return {.has_loss = true, .scope = scope.spec()}; }
    std::string formula() const {
      return str("L = mean over ", pooled ? "layers and " : "", "the valid tokens of ",
                 scope.text(), " of sum over a token's experts ",
                 by_load ? "f_i * w_i (f = load over an even one)" : "w_i",
                 "; objective + c * L, c = ", exact(start), " at first, after each step times ",
                 exact(rate), " if tokens use more than mean_k experts, divided by it if fewer");
    }
  };
  ReluSparsity(const Params& params, const Context& context)
      : params_(params),
        backend_(context.backend),
        label_(context.label),
        mean_k_(context.mean_k),
        power_(context.state.get(context.backend, "balancers." + context.label + ".power",
                                 DType::i64, {1})) {}

  std::optional<LossTerm> loss(Tape& tape, const BalancerInput& input) override {
    if (params_.pooled) return {};
    return term(layer_loss(tape, input.routing, input));
  }

  std::optional<LossTerm> pooled_loss(Tape& tape, std::span<const Routing> layers,
                                      const BalancerInput& input) override {
    if (!params_.pooled) return {};
    tape.remember([&] {
      count(layers, input);
      return true;
    });
    Variable sum;
    for (const Routing& layer : layers) {
      const Variable value = layer_loss(tape, layer, input);
      sum = sum ? add(tape, sum, value) : value;
    }
    return term(scale(tape, sum, 1.0 / static_cast<double>(layers.size())));
  }

  void after_step(const StepLoad& load) override {
    double routed = 0, tokens = static_cast<double>(load.valid_tokens);
    if (!params_.pooled) {
      for (const Index rows : load.routed_E) routed += static_cast<double>(rows);
    } else {
      if (step_state_ == nullptr) return;  // the first MoE layer's balancer keeps the coefficient
      routed = static_cast<double>(counter(*step_state_, kRouted));
      tokens = static_cast<double>(counter(*step_state_, kTokens));
    }
    const double target = mean_k_ * tokens;
    *power_.data<std::int64_t>() += routed > target ? 1 : routed < target ? -1 : 0;
  }

 private:
  LossTerm term(const Variable& value) const {
    LossTerm out;
    out.name = label_;
    out.value = value;
    out.coefficient =
        params_.start * std::pow(params_.rate, static_cast<double>(*power_.data<std::int64_t>()));
    out.replicated = false;
    return out;
  }

  // What no gradient flows through: the factor of each (instance, expert), and which a pair has.
  struct Factors {
    Tensor factor_C1;  // f64, C = G·E
    std::vector<std::int32_t> column_P;
  };

  Factors factors(const Routing& routing, const BalancerInput& input) const {
    const ScopeMap& scope = input.scope(params_.scope.spec());
    const RoutingPlan& plan = *routing.plan;
    Factors out{backend_.zeros(DType::f64, {scope.instances() * plan.experts, 1}), {}};
    const Tensor load_GE = backend_.zeros(DType::i64, {scope.instances(), plan.experts});
    out.column_P.assign(plan.expert_P.size(), -1);
    for (Index t = 0; t < plan.tokens; ++t)
      for (Index p = plan.begin(t); p < plan.end(t); ++p) {
        const auto at = static_cast<std::size_t>(p);
        if (plan.expert_P[at] < 0) continue;
        const Index column = scope.instance_of(t) * plan.experts + plan.expert_P[at];
        out.column_P[at] = static_cast<std::int32_t>(column);
        ++load_GE.data<std::int64_t>()[column];
      }
    scope.reduce(load_GE);
    const auto instances = static_cast<double>(input.instances_in_step(params_.scope.spec()));
    for (Index c = 0; c < load_GE.numel(); ++c) {
      const auto valid =
          static_cast<double>(scope.valid()[static_cast<std::size_t>(c / plan.experts)]);
      if (valid == 0) continue;
      const double even = valid * mean_k_ / static_cast<double>(plan.experts);
      const double share =
          params_.by_load ? static_cast<double>(load_GE.data<std::int64_t>()[c]) / even : 1.0;
      out.factor_C1.data<double>()[c] = share / (valid * instances);
    }
    return out;
  }

  Variable layer_loss(Tape& tape, const Routing& routing, const BalancerInput& input) const {
    const Factors f = tape.remember([&] { return factors(routing, input); });
    const Variable weight_P1 = reshape(tape, routing.weight_P, {routing.weight_P.value.numel(), 1});
    return weighted_score_sum(tape, weight_P1, f.factor_C1, f.column_P);
  }

  std::int64_t& counter(StateStore& state, const char* name) const {
    return *state.get(backend_, name, DType::i64, {1}).data<std::int64_t>();
  }

  // Adds this micro-batch's pairs and tokens, over all layers and ranks, to the step's.
  void count(std::span<const Routing> layers, const BalancerInput& input) {
    const Tensor both = backend_.zeros(DType::i64, {2});
    auto* n = both.data<std::int64_t>();
    for (const Routing& layer : layers) {
      for (const Index rows : layer.plan->counts_before_drop()) n[0] += rows;
      for (const std::uint8_t valid : input.tokens.valid_T.span<std::uint8_t>())
        n[1] += valid != 0 ? 1 : 0;
    }
    if (input.dp) input.dp->all_reduce(both).wait();
    step_state_ = &input.step_state;
    counter(*step_state_, kRouted) += n[0];
    counter(*step_state_, kTokens) += n[1];
  }

  Params params_;
  Backend& backend_;
  std::string label_;
  double mean_k_ = 0;
  Tensor& power_;  // of the rate in the coefficient; lives in the state store
  StateStore* step_state_ = nullptr;
};

const Register<Balancer, ReluSparsity> registered{
    "relu_sparsity", "L1 on combine weights that holds the number of experts a token uses (ReMoE)"};

}  // namespace
}  // namespace moelab
