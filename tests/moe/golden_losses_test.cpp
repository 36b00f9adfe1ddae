// Balancing losses against Megatron Core's own numbers. Ours divide by what was counted (the valid
// tokens of each sequence; the choices counted), Megatron by totals given from outside; where the
// two differ the case's factor turns one into the other. T tokens t = s·B + b there, b·S + s here.
#include <cmath>
#include <numeric>

#include "core/moe/switch_loss.h"
#include "tests/moe/moe_fixture.h"
#include "tests/support/golden.h"

using namespace moelab;
using namespace moelab::test;

namespace {

constexpr double kTolerance = golden_tolerance(DType::f64);
using Values = std::vector<double>;

double sum(const Values& v) { return std::accumulate(v.begin(), v.end(), 0.0); }
Values scaled(Values v, double factor) {
  for (double& x : v) x *= factor;
  return v;
}

// Rows of the case's [S·B, …] in the order of sequences, and back.
Values by_sequence(const Values& v, Index length, Index batch, bool back = false) {
  const Index width = static_cast<Index>(v.size()) / (length * batch);
  Values out(v.size());
  for (Index s = 0; s < length; ++s)
    for (Index b = 0; b < batch; ++b) {
      const Index theirs = (s * batch + b) * width, ours = (b * length + s) * width;
      std::copy_n(v.begin() + (back ? ours : theirs), width, out.begin() + (back ? theirs : ours));
    }
  return out;
}

Values part(const Values& v, Index parts, Index i) {
  const auto size = static_cast<std::ptrdiff_t>(v.size()) / parts;
  return {v.begin() + i * size, v.begin() + (i + 1) * size};
}

Values ones_minus(const Values& padding) {
  Values out;
  for (const double p : padding) out.push_back(1 - p);
  return out;
}

// Zero where the token is padding: Megatron routes padding, we do not.
Values masked(Values v, const Values& valid) {
  const std::size_t width = v.size() / valid.size();
  for (std::size_t i = 0; i < v.size(); ++i) v[i] *= valid[i / width];
  return v;
}

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

void check_switch(const GoldenCase& c) {
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
  CHECK(deviation(scaled(doubles(term.value.value), factor), c.tensor("loss").values) < kTolerance);
  given.tape.seed(term.value, factor);
  given.tape.backward();
  CHECK(deviation(doubles(given.tape.grad(given.routing.scores_TE.slot())),
                  c.tensor("grad_probs").values) < kTolerance);
}

void check_z(const GoldenCase& c) {
  const Index tokens = c.tensor("logits").size(0), experts = c.tensor("logits").size(1);
  const Values valid =
      c.has("padding_mask") ? ones_minus(c.tensor("padding_mask").values) : Values{};
  RouterBench router("type = \"softmax\"", experts, DType::f64);
  const Tokens meta = make_tokens(router.backend(), 1, tokens, valid);
  router.route(meta, c.tensor("logits").values);
  BalancerBench bench("type = \"z_loss\"\ncoefficient = " + c.text("z_loss_coeff"), experts, 2);
  const LossTerm term = bench.loss(router.tape(), router.routing(), meta, 1);
  CHECK(deviation(scaled(doubles(term.value.value), term.coefficient), c.tensor("loss").values) <
        kTolerance);
  router.tape().seed(term.value, term.coefficient);
  CHECK(deviation(router.logits_gradient(), c.tensor("grad_logits").values) < kTolerance);
}

void check_scores(const GoldenCase& c) {
  const Index tokens = c.tensor("logits").size(0), experts = c.tensor("logits").size(1);
  const Values valid =
      c.has("padding_mask") ? ones_minus(c.tensor("padding_mask").values) : Values{};
  RouterBench router("type = \"" + c.text("score_function") + "\"\nk = " + c.text("topk"), experts,
                     DType::f64);
  router.route(make_tokens(router.backend(), 1, tokens, valid), c.tensor("logits").values);
  CHECK(router.map() == c.tensor("routing_map").values);
  const Variable& scores = router.routing().scores_TE;
  CHECK(deviation(doubles(scores.value), c.tensor("scores").values) < kTolerance);
  router.tape().seed(
      scores, reals(router.backend(), DType::f64, {tokens, experts}, c.tensor("cotangent").values));
  CHECK(deviation(router.logits_gradient(), c.tensor("grad_logits").values) < kTolerance);
}

// ---- whole routers with losses attached

struct Attached {  // one loss as the case attaches it
  std::string type;
  double coefficient = 0;
};

// "[\"aux_loss\",\"z\"]" or "aux_loss" → its items.
std::vector<std::string> items(const std::string& json) {
  std::vector<std::string> out(1);
  for (const char c : json) {
    if (c == ',')
      out.emplace_back();
    else if (c != '[' && c != ']' && c != '"' && c != ' ')
      out.back() += c;
  }
  return out;
}

// In the order of the case's attached_loss: z, aux, sequence, global.
std::vector<Attached> attached(const GoldenCase& c) {
  const auto types = items(c.text("moe_router_load_balancing_type"));
  const auto coefficients = items(c.text("moe_aux_loss_coeff"));
  std::vector<Attached> out;
  if (c.given("moe_z_loss_coeff")) out.push_back({"z_loss", c.number("moe_z_loss_coeff")});
  for (const auto& [theirs, ours] : std::initializer_list<std::pair<const char*, const char*>>{
           {"aux_loss", "aux_loss"},
           {"seq_aux_loss", "sequence_aux_loss"},
           {"global_aux_loss", "global_aux_loss"}})
    for (std::size_t i = 0; i < types.size(); ++i)
      if (types[i] == theirs) out.push_back({ours, std::stod(coefficients[i])});
  return out;
}

std::string router_recipe(const GoldenCase& c) {
  const std::string score = c.text("moe_router_score_function");
  std::string recipe = "type = \"" + score + "\"\nk = " + c.text("moe_router_topk");
  if (score == "softmax") recipe += "\nscore_first = " + c.text("moe_router_pre_softmax");
  return recipe;
}

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
    RouterBench router(router_recipe(c), c.integer("num_moe_experts"), DType::f64);
    const Values valid = part(m.valid, m.batch, b);
    const Tokens tokens = make_tokens(router.backend(), 1, m.length, valid);
    router.route(tokens, part(m.logits, m.batch, b));
    BalancerBench bench("type = \"sequence_aux_loss\"", c.integer("num_moe_experts"),
                        c.integer("moe_router_topk"));
    const LossTerm term = bench.loss(router.tape(), router.routing(), tokens, 1);
    const double theirs = std::pow(sum(valid) / mean, 2) / static_cast<double>(m.batch);
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
  RouterBench router(router_recipe(c), c.integer("num_moe_experts"), DType::f64);
  const Tokens tokens = make_tokens(router.backend(), m.batch, m.length, m.valid);
  router.route(tokens, m.logits);
  const LossTerm term = bench.loss(router.tape(), router.routing(), tokens, 1);
  router.tape().seed(term.value, factor * theirs);
  return {theirs * doubles(term.value.value)[0], router.logits_gradient()};
}

void check_counts(const GoldenCase& c, const MicroBatch& m) {
  RouterBench router(router_recipe(c), c.integer("num_moe_experts"), DType::f64);
  const Tokens tokens = make_tokens(router.backend(), m.batch, m.length, m.valid);
  router.route(tokens, m.logits);
  const ScopeMap scope({}, tokens, nullptr);
  const Tensor counts = count_choices(router.backend(), router.routing(), tokens,
                                      c.integer("moe_router_topk"), CountSource::scores, scope);
  const auto ours = counts.span<std::int64_t>();
  CHECK(Values(ours.begin(), ours.end()) == c.tensor("tokens_per_expert").values);
}

void check_router(const GoldenCase& c) {
  const Index steps = c.integer("micro_batches");
  const std::vector<Attached> losses = attached(c);
  const std::vector<std::string> resets = items(c.text("reset_before_micro_batch"));
  const auto balancer = [&](const std::string& type) {
    return BalancerBench("type = \"" + type + "\"", c.integer("num_moe_experts"),
                         c.integer("moe_router_topk"));
  };
  std::vector<std::unique_ptr<BalancerBench>> benches(losses.size());
  for (Index i = 0; i < steps; ++i) {
    const MicroBatch m = micro_batch(c, i);
    const double valid = sum(m.valid);
    const double per_token = c.flag("calculate_per_token_loss") ? valid : 1.0;
    RouterBench plain(router_recipe(c), c.integer("num_moe_experts"), DType::f64);
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
    CHECK(deviation(logged, part(c.tensor("logged").values, steps, i)) < kTolerance);
    CHECK(deviation(value, part(c.tensor("attached_loss").values, steps, i)) < kTolerance);
    const auto theirs_by_sequence = [&](const std::string& name) {
      return masked(by_sequence(part(c.tensor(name).values, steps, i), m.length, m.batch), m.valid);
    };
    CHECK(plain.map() == theirs_by_sequence("routing_map"));
    CHECK(deviation(plain.dense_weights(), theirs_by_sequence("probs")) < kTolerance);
    CHECK(deviation(gradient, theirs_by_sequence("grad_logits")) < kTolerance);
    if (c.text("moe_router_load_balancing_type") == "aux_loss") check_counts(c, m);
  }
}

}  // namespace

TEST_CASE("balancing losses equal Megatron Core: golden/megatron_losses") {
  const std::vector<GoldenCase> cases = read_golden("megatron_losses");
  CHECK(cases.size() == 37);
  for (const GoldenCase& c : cases) {
    CAPTURE(c.name);
    if (c.name.starts_with("switch_"))
      check_switch(c);
    else if (c.name.starts_with("z_"))
      check_z(c);
    else if (c.name.starts_with("scores_"))
      check_scores(c);
    else
      check_router(c);
  }
}
