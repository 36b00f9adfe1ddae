// Quantile balancing over steps and micro-batches against Megatron Core's own numbers.
#include <stdexcept>

#include "tests/golden_tests/suite.h"
#include "tests/moe/moe_fixture.h"

namespace moelab::test {
namespace {

std::string recipe_of(const GoldenCase& c) {
  const std::string& score = c.text("moe_router_score_function");
  const bool raw = score == "softmax" && c.flag("moe_router_pre_softmax");
  if (score != "softmax") c.ignore({"moe_router_pre_softmax"});
  std::string recipe = "type = \"quantile\"\nscore = \"" + score +
                       "\"\nk = " + c.text("moe_router_topk") +
                       "\nema = " + c.text("moe_router_quantile_balancing_ema") +
                       "\nnormalize = " + (raw ? "false" : "true");
  if (c.given("moe_router_topk_scaling_factor"))
    recipe += "\nscaling = " + c.text("moe_router_topk_scaling_factor");
  return recipe;
}

class Replay {
 public:
  Replay(Comparison& to, const GoldenCase& c)
      : to_(to),
        c_(c),
        experts_(c.integer("num_moe_experts")),
        tokens_(c.integer("seq_length") * c.integer("bsz")),
        micro_batches_(c.integer("micro_batches")),
        bench_(recipe_of(c), experts_, DType::f64),
        meta_(make_tokens(bench_.backend(), 1, tokens_)) {}

  void run() {
    for (Index step = 0; step < c_.integer("steps"); ++step) {
      bench_.begin_step();
      compare("qb_beta_before", step, price());
      for (Index m = 0; m < micro_batches_; ++m) micro_batch(step * micro_batches_ + m);
      bench_.router().after_step({});
      compare("qb_beta_after", step, price());
      bench_.begin_step();
      to_.exact("count after", count(), block("qb_beta_count_after", step, 1)[0]);
    }
    Moment moment;
    moment.phase = Phase::eval;
    forward("eval_", 0, moment);
  }

 private:
  void micro_batch(Index at) {
    const Values before = sum();
    forward("", at, {});
    Values asked = sum();
    compare("qb_beta_accum", at, asked);
    for (std::size_t e = 0; e < asked.size(); ++e) asked[e] -= before[e];
    compare("beta_local", at, asked);
    to_.exact("count", count(), block("qb_beta_count", at, 1)[0]);
  }

  void forward(const std::string& prefix, Index at, const Moment& moment) {
    const Index table = tokens_ * experts_;
    bench_.route(meta_, block(prefix + "logits", at, table), {}, moment);
    to_.exact(prefix + "map", bench_.map(), block(prefix + "routing_map", at, table));
    const auto& ids = bench_.routing().plan->expert_P;
    to_.exact(prefix + "indices", ids,
              block(prefix + "indices", at, static_cast<Index>(ids.size())));
    to_.same(prefix + "probs", bench_.dense_weights(), block(prefix + "probs", at, table),
             kTolerance);
    bench_.seed_weights(block(prefix + "cotangent", at, table));
    to_.same(prefix + "gradient", bench_.logits_gradient(),
             block(prefix + "grad_logits", at, table), kTolerance);
  }

  void compare(const std::string& name, Index at, const Values& got) {
    to_.same(name, got, block(name, at, experts_), kTolerance);
  }

  Values block(const std::string& name, Index at, Index width) const {
    const Values& all = c_.tensor(name).values;
    if (static_cast<Index>(all.size()) < (at + 1) * width)
      throw std::runtime_error(name + " has too few elements");
    return {all.begin() + at * width, all.begin() + (at + 1) * width};
  }
  Values state(const StateStore& store, const std::string& name, std::size_t width) const {
    const auto at = store.all().find(name);
    return at == store.all().end() ? Values(width, 0.0) : doubles(at->second);
  }
  Values price() { return state(bench_.state(), "test.gate.price", n()); }
  Values sum() { return state(bench_.step_state(), "step.price_sum", n()); }
  double count() { return state(bench_.step_state(), "step.price_count", 1)[0]; }
  std::size_t n() const { return static_cast<std::size_t>(experts_); }

  static constexpr double kTolerance = golden_tolerance(DType::f64);
  Comparison& to_;
  const GoldenCase& c_;
  Index experts_, tokens_, micro_batches_;
  RouterBench bench_;
  Tokens meta_;
};

Outcome run_case(const GoldenCase& c) {
  c.ignore({"compute_dtype"});
  Comparison to;
  Replay(to, c).run();
  return to.outcome();
}

const RegisterSuite registered{"megatron_qb", run_case};

}  // namespace
}  // namespace moelab::test
