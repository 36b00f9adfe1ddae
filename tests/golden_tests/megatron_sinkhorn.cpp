// Sinkhorn's iteration, and routing by it, against Megatron Core's own numbers.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/moe/sinkhorn.h"
#include "tests/golden_tests/suite.h"
#include "tests/moe/moe_fixture.h"

namespace moelab::test {
namespace {

constexpr double kMegatronEpsilon = 1e-8;
constexpr Index kBound = 10000;  // Megatron Core has none

struct Iteration {
  double tolerance = 0, epsilon = kMegatronEpsilon;
};

Iteration iteration_of(const GoldenCase& c) {
  Iteration out;
  out.tolerance = c.number("tol");
  if (c.given("eps")) out.epsilon = c.number("eps");
  return out;
}

std::string recipe_of(const Iteration& i, Index k) {
  return str("type = \"sinkhorn\"\nstop = \"factor_change\"\ntolerance = ", exact(i.tolerance),
             "\nepsilon = ", exact(i.epsilon), "\nmax_iterations = ", kBound, "\nk = ", k);
}

// The k best of each row, best first.
std::vector<std::int32_t> best_of(const Values& rows, Index width, Index k) {
  std::vector<std::int32_t> out;
  for (auto row = rows.begin(); row < rows.end(); row += width) {
    std::vector<std::int32_t> order(static_cast<std::size_t>(width));
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, [&](auto a, auto b) { return row[a] > row[b]; });
    out.insert(out.end(), order.begin(), order.begin() + k);
  }
  return out;
}

void compare_function(Comparison& to, const GoldenCase& c, DType dtype) {
  const GoldenTensor& cost = c.tensor("cost");
  const Index tokens = cost.size(0), experts = cost.size(1);
  const Iteration iteration = iteration_of(c);
  const SinkhornRule rule{SinkhornStop::factor_change, iteration.tolerance, kBound,
                          iteration.epsilon};
  const auto backend = Backend::cpu();
  const Tokens meta = make_tokens(*backend, 1, tokens);
  const ScopeMap scope({ScopeKind::batch, 0}, meta, nullptr);
  const SinkhornFactors f =
      sinkhorn(reals(*backend, dtype, {tokens, experts}, cost.values), rule, scope, meta);
  Values plan;
  for (std::size_t t = 0; t < f.log_row_T.size(); ++t)
    for (std::size_t e = 0; e < f.log_column_GE.size(); ++e)
      plan.push_back(std::exp(f.log_row_T[t] + cost.values[plan.size()] + f.log_column_GE[e]));
  to.same("plan", plan, c.tensor("plan"), golden_tolerance(dtype));
  if (c.has("plan_native_fp32"))
    to.same("plan_native_fp32", plan, c.tensor("plan_native_fp32"), golden_tolerance(DType::f32));
  to.exact("iterations", f.iterations_G, {c.number("iterations")});

  const Index k = std::min<Index>(2, experts);
  RouterBench bench(recipe_of(iteration, k), experts, dtype);
  bench.route(meta, cost.values);
  to.exact("choice by the plan", bench.routing().plan->expert_P, [&] {
    const auto ids = best_of(c.tensor("plan").values, experts, k);
    return Values(ids.begin(), ids.end());
  }());
}

void compare_routing(Comparison& to, const GoldenCase& c, DType dtype) {
  const Index tokens = c.integer("num_tokens"), experts = c.integer("num_moe_experts");
  RouterBench bench(recipe_of(iteration_of(c), c.integer("moe_router_topk")), experts, dtype);
  Moment moment;
  moment.phase = c.flag("training") ? Phase::train : Phase::eval;
  bench.route(make_tokens(bench.backend(), 1, tokens), c.tensor("logits").values, {}, moment);
  to.exact("map", bench.map(), c.tensor("routing_map"));
  const double tolerance = golden_tolerance(dtype);
  const Values probs = bench.dense_weights();
  to.same("probs", probs, c.tensor("probs"), tolerance);
  bench.seed_weights(c.tensor("cotangent").values);
  const Values gradient = bench.logits_gradient();
  to.same("gradient", gradient, c.tensor("grad_logits"), tolerance);
  for (const auto& [name, got] :
       {std::pair{"probs_native_fp32", &probs}, {"grad_logits_native_fp32", &gradient}})
    if (c.has(name)) to.same(name, *got, c.tensor(name), golden_tolerance(DType::f32));
}

Outcome run_case(const GoldenCase& c) {
  c.ignore({"compute_dtype"});
  const std::string& function = c.text("function");
  Comparison to;
  for (const DType dtype : {DType::f64, DType::f32})
    if (function == "sinkhorn") {
      compare_function(to, c, dtype);
    } else if (function == "TopKRouter.sinkhorn_load_balancing") {
      if (c.number("moe_aux_loss_coeff") != 0)
        return Outcome::failed("Megatron Core refuses an auxiliary loss beside sinkhorn");
      compare_routing(to, c, dtype);
    } else {
      return Outcome::failed("does not know the function " + function);
    }
  return to.outcome();
}

const RegisterSuite registered{"megatron_sinkhorn", run_case};

}  // namespace
}  // namespace moelab::test
