#include "tests/moe/moe_fixture.h"

#include <algorithm>
#include <numeric>

#include "core/moe/moe_layer.h"

namespace moelab::test {

MoeParams moe_params(const std::string& toml) {
  Report report;
  const Node root = parse_recipe("[layer]\n" + toml, "test.toml", Source::Origin::recipe, report);
  MoeParams out;
  read_into(
      root, "", [&](ParamVisitor& v) { v.section("layer", out, "under test"); }, report);
  for (const Problem& problem : report.problems()) throw std::runtime_error(problem.line());
  return out;
}

Tokens make_tokens(const Backend& backend, Index rows, Index length,
                   const std::vector<double>& valid, Index first_row, Index rows_global) {
  Tokens tokens;
  tokens.rows = rows;
  tokens.length = length;
  tokens.first_row = first_row;
  tokens.rows_global = rows_global < 0 ? rows : rows_global;
  tokens.id_T = backend.zeros(DType::i32, {rows * length});
  tokens.position_T = backend.zeros(DType::i32, {rows * length});
  tokens.document_T = backend.zeros(DType::i32, {rows * length});
  tokens.valid_T = backend.empty(DType::u8, {rows * length});
  for (Index t = 0; t < rows * length; ++t) {
    tokens.position_T.data<std::int32_t>()[t] = static_cast<std::int32_t>(t % length);
    tokens.valid_T.data<std::uint8_t>()[t] =
        valid.empty() || valid[static_cast<std::size_t>(t)] != 0 ? 1 : 0;
  }
  return tokens;
}

Tensor reals(const Backend& backend, DType dtype, Shape shape, const std::vector<double>& values) {
  MOELAB_CHECK(shape.numel() == static_cast<Index>(values.size()), "values for ", shape.numel(),
               " elements");
  const Tensor t = backend.empty(dtype, shape);
  dispatch_real(dtype, "test", [&](auto zero) {
    using T = decltype(zero);
    std::transform(values.begin(), values.end(), t.data<T>(),
                   [](double v) { return static_cast<T>(v); });
  });
  return t;
}

std::vector<double> doubles(const Tensor& t) {
  return dispatch_real(t.dtype(), "test", [&](auto zero) {
    const auto values = t.span<decltype(zero)>();
    return std::vector<double>(values.begin(), values.end());
  });
}

RouterBench::RouterBench(const std::string& recipe, Index experts, DType dtype)
    : backend_(Backend::cpu()), experts_(experts), dtype_(dtype) {
  router_ = component<Router>(recipe).make(
      {*backend_, dtype, experts, experts, 0, "test.gate", 0.02, state_});
  std::vector<double> identity(static_cast<std::size_t>(experts * experts), 0.0);
  for (Index e = 0; e < experts; ++e) identity[static_cast<std::size_t>(e * experts + e)] = 1;
  router_->parameters([&](Parameter& p) {
    if (p.name == "test.gate.weight")
      copy(reals(*backend_, dtype, {experts, experts}, identity), p.value);
  });
}

void RouterBench::route(const Tokens& tokens, const std::vector<double>& logits_TE,
                        const Tensor& bias_E, Moment moment, const ForcedRouting* forced,
                        std::shared_ptr<Group> dp, const ChoicePricing* pricing) {
  tape_ = std::make_unique<Tape>(*backend_);
  x_TE_ = tape_->input(reals(*backend_, dtype_, {tokens.count(), experts_}, logits_TE));
  ScopeMaps scopes(tokens, dp);
  const auto scope = [&](ScopeSpec spec) -> const ScopeMap& { return scopes.get(spec); };
  const RouterInput input{x_TE_,  tokens, moment, 0,     forced,       nullptr,
                          bias_E, {},     dp,     scope, &step_state_, pricing};
  routing_ = router_->route(*tape_, input);
  routing_.plan->validate();
}

Routing RouterBench::route_on(Tape& tape, const Variable& logits_TE, const Tokens& tokens) {
  return router_->route(tape, {logits_TE, tokens, {}, 0, nullptr, nullptr, {}, {}, nullptr});
}

std::vector<double> RouterBench::dense_weights() const {
  const RoutingPlan& plan = *routing_.plan;
  const std::vector<double> weight_P = doubles(routing_.weight_P.value);
  std::vector<double> dense(static_cast<std::size_t>(plan.tokens * experts_), 0.0);
  for (Index t = 0; t < plan.tokens; ++t)
    for (Index p = plan.begin(t); p < plan.end(t); ++p) {
      const auto at = static_cast<std::size_t>(p);
      if (plan.expert_P[at] >= 0)
        dense[static_cast<std::size_t>(t * experts_ + plan.expert_P[at])] = weight_P[at];
    }
  return dense;
}

std::vector<double> RouterBench::map() const {
  const RoutingPlan& plan = *routing_.plan;
  std::vector<double> map(static_cast<std::size_t>(plan.tokens * experts_), 0.0);
  for (Index t = 0; t < plan.tokens; ++t)
    for (Index p = plan.begin(t); p < plan.end(t); ++p)
      if (const std::int32_t e = plan.expert_P[static_cast<std::size_t>(p)]; e >= 0)
        map[static_cast<std::size_t>(t * experts_ + e)] = 1;
  return map;
}

void RouterBench::seed_weights(const std::vector<double>& cotangent_TE) {
  const RoutingPlan& plan = *routing_.plan;
  std::vector<double> cotangent_P(plan.expert_P.size(), 0.0);
  for (Index t = 0; t < plan.tokens; ++t)
    for (Index p = plan.begin(t); p < plan.end(t); ++p)
      if (const std::int32_t e = plan.expert_P[static_cast<std::size_t>(p)]; e >= 0)
        cotangent_P[static_cast<std::size_t>(p)] =
            cotangent_TE[static_cast<std::size_t>(t * experts_ + e)];
  tape_->seed(routing_.weight_P, reals(*backend_, dtype_, {plan.pairs()}, cotangent_P));
}

std::vector<double> RouterBench::logits_gradient() {
  tape_->backward();
  const Tensor gradient = tape_->grad(x_TE_.slot());
  MOELAB_CHECK(gradient.defined(), "the logits have no gradient");
  return doubles(gradient);
}

BalancerBench::BalancerBench(const std::string& recipe, Index experts, Index k, DType dtype)
    : backend_(Backend::cpu()) {
  balancer_ = component<Balancer>(recipe).make({*backend_, dtype, experts, k, 0, "label", state_});
}

LossTerm BalancerBench::loss(Tape& tape, const Routing& routing, const Tokens& tokens,
                             Index instances, std::shared_ptr<Group> dp) {
  std::vector<std::unique_ptr<ScopeMap>> maps;
  const auto scope = [&](ScopeSpec spec) -> const ScopeMap& {
    maps.push_back(std::make_unique<ScopeMap>(spec, tokens, dp));
    return *maps.back();
  };
  const auto valid = tokens.valid_T.span<std::uint8_t>();
  const BalancerInput input{routing,    tokens,
                            {},         0,
                            dp,         [=](ScopeSpec) { return instances; },
                            scope,      std::accumulate(valid.begin(), valid.end(), Index{0}),
                            step_state_};
  auto term = balancer_->loss(tape, input);
  MOELAB_CHECK(term.has_value(), "the balancer has no loss");
  return *term;
}

LossTerm BalancerBench::pooled_loss(Tape& tape, const std::vector<Routing>& layers,
                                    const Tokens& tokens) {
  const ScopeMap map({}, tokens, nullptr);
  const auto valid = tokens.valid_T.span<std::uint8_t>();
  const BalancerInput input{layers.front(),
                            tokens,
                            {},
                            0,
                            nullptr,
                            [](ScopeSpec) { return Index{1}; },
                            [&](ScopeSpec) -> const ScopeMap& { return map; },
                            std::accumulate(valid.begin(), valid.end(), Index{0}),
                            step_state_};
  return balancer_->pooled_loss(tape, layers, input).value();
}

}  // namespace moelab::test
