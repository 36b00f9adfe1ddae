// Balancing losses against Megatron Core's own numbers. Ours divide by what was counted (the valid
// tokens of each sequence; the choices counted), Megatron by totals given from outside; where the
// two differ the case's factor turns one into the other.
#include <algorithm>

#include "core/moe/switch_loss.h"
#include "tests/golden_tests/megatron.h"
#include "tests/moe/moe_fixture.h"

namespace moelab::test {
namespace {

constexpr double kTolerance = golden_tolerance(DType::f64);

// Scores [T, E] as a differentiable input with a plan that has `counts` choices of each expert.
struct GivenScores {
  std::shared_ptr<Backend> backend = Backend::cpu();
  Tape tape{*backend};
  Tokens tokens;
  Routing routing;
  GivenScores(const GoldenCase& c, const Values& valid) {
    const GoldenTensor& probs = c.tensor("probs");
    tokens = make_tokens(*backend, 1, probs.size(0), valid);
    routing.scores_TE =
        tape.input(reals(*backend, DType::f64, {probs.size(0), probs.size(1)}, probs.values));
    routing.plan = std::make_shared<RoutingPlan>();
    routing.plan->tokens = probs.size(0);
    routing.plan->experts = probs.size(1);
    const Values& counts = c.tensor("tokens_per_expert").values;
    routing.plan->offset_T1 = {0};
    for (Index t = 0; t < probs.size(0); ++t) {
      for (std::size_t e = 0; e < counts.size(); ++e)
        if (static_cast<double>(t) < counts[e])
          routing.plan->expert_P.push_back(static_cast<std::int32_t>(e));
      routing.plan->offset_T1.push_back(routing.plan->pairs());
    }
    routing.plan->fate_P.assign(routing.plan->expert_P.size(), PairFate::kept);
    routing.plan->validate();
  }
};

void compare_switch(Comparison& to, const GoldenCase& c) {
  const Values valid = c.has("padding_mask") ? c.tensor("padding_mask").values : Values{};
  GivenScores given(c, valid);
  BalancerBench bench("type = \"aux_loss\"\ncounts = \"routed\"", c.integer("num_experts"),
                      c.integer("topk"));
  const LossTerm term = bench.loss(given.tape, given.routing, given.tokens, 1);
  const double tokens = c.number("total_num_tokens");
  const double counted = sum(c.tensor("tokens_per_expert").values);
  const double kept = valid.empty() ? static_cast<double>(given.tokens.count()) : sum(valid);
  const double factor =
      c.number("moe_aux_loss_coeff") * counted * kept / (c.number("topk") * tokens * tokens);
  to.same("loss", scaled(doubles(term.value.value), factor), c.tensor("loss"), kTolerance);
  given.tape.seed(term.value, factor);
  given.tape.backward();
  to.same("gradient", doubles(given.tape.grad(given.routing.scores_TE.slot())),
          c.tensor("grad_probs"), kTolerance);
}

void compare_z(Comparison& to, const GoldenCase& c) {
  const Index tokens = c.tensor("logits").size(0), experts = c.tensor("logits").size(1);
  const Values valid =
      c.has("padding_mask") ? ones_minus(c.tensor("padding_mask").values) : Values{};
  RouterBench router("type = \"softmax\"", experts, DType::f64);
  const Tokens meta = make_tokens(router.backend(), 1, tokens, valid);
  router.route(meta, c.tensor("logits").values);
  BalancerBench bench("type = \"z_loss\"\ncoefficient = " + c.text("z_loss_coeff"), experts, 2);
  const LossTerm term = bench.loss(router.tape(), router.routing(), meta, 1);
  to.same("loss", scaled(doubles(term.value.value), term.coefficient), c.tensor("loss"),
          kTolerance);
  router.tape().seed(term.value, term.coefficient);
  to.same("gradient", router.logits_gradient(), c.tensor("grad_logits"), kTolerance);
}

void compare_scores(Comparison& to, const GoldenCase& c) {
  const Index tokens = c.tensor("logits").size(0), experts = c.tensor("logits").size(1);
  const Values valid =
      c.has("padding_mask") ? ones_minus(c.tensor("padding_mask").values) : Values{};
  RouterBench router("type = \"" + c.text("score_function") + "\"\nk = " + c.text("topk"), experts,
                     DType::f64);
  router.route(make_tokens(router.backend(), 1, tokens, valid), c.tensor("logits").values);
  to.exact("map", router.map(), c.tensor("routing_map"));
  const Variable& scores = router.routing().scores_TE;
  to.same("scores", doubles(scores.value), c.tensor("scores"), kTolerance);
  router.tape().seed(
      scores, reals(router.backend(), DType::f64, {tokens, experts}, c.tensor("cotangent").values));
  to.same("gradient", router.logits_gradient(), c.tensor("grad_logits"), kTolerance);
}

// ---- whole routers with losses attached

struct MicroBatch {
  Index length, batch;
  Values logits, valid, cotangent;  // by sequence
};

MicroBatch micro_batch(const GoldenCase& c, Index i) {
  const Index n = c.integer("micro_batches");
  MicroBatch m{c.integer("seq_length"), c.integer("bsz"), {}, {}, {}};
  const auto own = [&](const std::string& name) {
    return by_sequence(part(c.tensor(name).values, n, i), m.length, m.batch);
  };
  m.logits = own("logits");
  m.cotangent = own("cotangent");
  m.valid = c.has("padding_mask") ? ones_minus(own("padding_mask"))
                                  : Values(static_cast<std::size_t>(m.length * m.batch), 1.0);
  return m;
}

// Megatron's sequence loss divides every sequence by the mean valid length: per sequence, its
// value is ours · (valid / mean)², so each sequence is a run of its own here.
struct Result {
  double value = 0;
  Values gradient;  // of factor · value with respect to the logits, by sequence
};

Result sequence_loss(const GoldenCase& c, const MicroBatch& m, double factor) {
  Result out;
  const double mean = sum(m.valid) / static_cast<double>(m.batch);
  for (Index b = 0; b < m.batch; ++b) {
    RouterBench router(megatron_router(c), c.integer("num_moe_experts"), DType::f64);
    const Values valid = part(m.valid, m.batch, b);
    const Tokens tokens = make_tokens(router.backend(), 1, m.length, valid);
    router.route(tokens, part(m.logits, m.batch, b));
    BalancerBench bench("type = \"sequence_aux_loss\"", c.integer("num_moe_experts"),
                        c.integer("moe_router_topk"));
    const LossTerm term = bench.loss(router.tape(), router.routing(), tokens, 1);
    const double theirs = sequence_factor(sum(valid), mean, m.batch);
    out.value += theirs * doubles(term.value.value)[0];
    router.tape().seed(term.value, factor * theirs);
    const Values gradient = router.logits_gradient();
    out.gradient.insert(out.gradient.end(), gradient.begin(), gradient.end());
  }
  return out;
}

// `theirs`: Megatron's value as a multiple of ours.
Result batch_loss(const GoldenCase& c, const MicroBatch& m, BalancerBench& bench, double factor,
                  double theirs) {
  RouterBench router(megatron_router(c), c.integer("num_moe_experts"), DType::f64);
  const Tokens tokens = make_tokens(router.backend(), m.batch, m.length, m.valid);
  router.route(tokens, m.logits);
  const LossTerm term = bench.loss(router.tape(), router.routing(), tokens, 1);
  router.tape().seed(term.value, factor * theirs);
  return {theirs * doubles(term.value.value)[0], router.logits_gradient()};
}

void compare_counts(Comparison& to, const GoldenCase& c, const MicroBatch& m) {
  RouterBench router(megatron_router(c), c.integer("num_moe_experts"), DType::f64);
  const Tokens tokens = make_tokens(router.backend(), m.batch, m.length, m.valid);
  router.route(tokens, m.logits);
  const ScopeMap scope({}, tokens, nullptr);
  const Tensor counts = count_choices(router.backend(), router.routing(), tokens,
                                      c.integer("moe_router_topk"), CountSource::scores, scope);
  const auto ours = counts.span<std::int64_t>();
  to.exact("tokens per expert", Values(ours.begin(), ours.end()), c.tensor("tokens_per_expert"));
}

void compare_router(Comparison& to, const GoldenCase& c) {
  const Index steps = c.integer("micro_batches");
  const std::vector<AttachedLoss> losses = megatron_losses(c);
  const std::vector<std::string> resets = c.list("reset_before_micro_batch");
  const auto balancer = [&](const std::string& type) {
    return BalancerBench("type = \"" + type + "\"", c.integer("num_moe_experts"),
                         c.integer("moe_router_topk"));
  };
  std::vector<std::unique_ptr<BalancerBench>> benches(losses.size());
  for (Index i = 0; i < steps; ++i) {
    const MicroBatch m = micro_batch(c, i);
    const double valid = sum(m.valid);
    const double per_token = c.flag("calculate_per_token_loss") ? valid : 1.0;
    RouterBench plain(megatron_router(c), c.integer("num_moe_experts"), DType::f64);
    plain.route(make_tokens(plain.backend(), m.batch, m.length, m.valid), m.logits);
    plain.seed_weights(m.cotangent);
    Values gradient = plain.logits_gradient();
    Values logged, value;
    for (std::size_t l = 0; l < losses.size(); ++l) {
      if (!benches[l] || std::find(resets.begin(), resets.end(), std::to_string(i)) != resets.end())
        benches[l] = std::make_unique<BalancerBench>(balancer(losses[l].type));
      const double factor = losses[l].coefficient * per_token * c.number("loss_scale");
      double theirs = 1;  // the running mean of counts over what this micro-batch routes
      if (losses[l].type == "global_aux_loss" && c.has("tokens_per_expert"))
        theirs = sum(part(c.tensor("tokens_per_expert").values, steps, i)) /
                 (c.number("moe_router_topk") * valid);
      const Result r = losses[l].type == "sequence_aux_loss"
                           ? sequence_loss(c, m, factor)
                           : batch_loss(c, m, *benches[l], factor, theirs);
      logged.push_back(r.value);
      value.push_back(r.value * losses[l].coefficient * per_token);
      for (std::size_t j = 0; j < gradient.size(); ++j) gradient[j] += r.gradient[j];
    }
    to.same("logged", logged, part(c.tensor("logged").values, steps, i), kTolerance);
    to.same("attached loss", value, part(c.tensor("attached_loss").values, steps, i), kTolerance);
    const auto theirs_by_sequence = [&](const std::string& name) {
      return masked(by_sequence(part(c.tensor(name).values, steps, i), m.length, m.batch), m.valid);
    };
    to.exact("map", plain.map(), theirs_by_sequence("routing_map"));
    to.same("probs", plain.dense_weights(), theirs_by_sequence("probs"), kTolerance);
    to.same("gradient", gradient, theirs_by_sequence("grad_logits"), kTolerance);
    if (c.text("moe_router_load_balancing_type") == "aux_loss") compare_counts(to, c, m);
  }
}

Outcome run_case(const GoldenCase& c) {
  // The totals that Megatron divides by, and its state afterwards, show in the losses.
  c.ignore({"compute_dtype", "num_layers", "metric_names", "total_num_tokens*",
            "tokens_per_expert*", "global_tokens_per_expert_after", "ga_steps_after"});
  const std::string& function = c.text("function");
  Comparison to;
  if (function == "switch_load_balancing_loss_func")
    compare_switch(to, c);
  else if (function == "z_loss_func")
    compare_z(to, c);
  else if (function == "compute_routing_scores_for_aux_loss")
    compare_scores(to, c);
  else if (function == "TopKRouter.routing")
    compare_router(to, c);
  else
    return Outcome::failed("does not know the function " + function);
  return to.outcome();
}

const RegisterSuite registered{"megatron_losses", run_case};

}  // namespace
}  // namespace moelab::test
