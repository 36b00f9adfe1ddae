// The MoE blocks of Hugging Face's model families, each as one layer: weights, ids, output and
// gradients. What a family is stands in its params; names and layouts of weights in hf_weights.h.
// T tokens, H hidden, E experts, P pair slots.
#include <algorithm>
#include <stdexcept>

#include "core/lab/layer_bench.h"
#include "core/moe/ffn.h"
#include "tests/golden_tests/hf_weights.h"
#include "tests/golden_tests/suite.h"
#include "tests/moe/moe_fixture.h"

namespace moelab::test {
namespace {

[[noreturn]] void unknown(const std::string& what) {
  throw std::runtime_error("does not know " + what);
}

std::string quoted(const std::string& text) { return '"' + text + '"'; }

// --- the layer as a recipe ---

std::string normalizer(const GoldenCase& router) {
  if (!router.given("normalise")) return "normalize = false\n";
  const GoldenCase how = router.object("normalise");
  std::string text = "normalize = true\nnormalize_single = true\n";
  text += "normalize_epsilon = " + (how.given("eps") ? how.text("eps") : "0") + "\n";
  if (how.given("p")) text += "normalize_power = " + how.text("p") + "\n";
  if (how.given("clamp_min")) text += "normalize_floor = " + how.text("clamp_min") + "\n";
  return text;
}

std::string groups(const GoldenCase& router) {
  if (!router.given("n_group")) return "";
  const std::string& score = router.text("group_score");
  const std::string& mask = router.text("mask_fill");
  if (score != "max" && score != "top2_sum") unknown("group_score " + score);
  if (mask != "-inf" && std::stod(mask) != 0) unknown("mask_fill " + mask);
  return "groups = " + router.text("n_group") + "\ngroup_limit = " + router.text("topk_group") +
         "\ngroup_top = " + (score == "max" ? "1" : "2") +
         "\ngroup_mask = " + quoted(mask == "-inf" ? "excluded" : "zero") + "\n";
}

std::string hashed(const GoldenCase& c, const std::string& score) {
  return "type = \"hash\"\nstored = true\nweights = " + quoted(score) +
         "\nvocabulary = " + std::to_string(c.tensor("weight.gate.tid2eid").size(0)) + "\n";
}

std::string router_table(const GoldenCase& c) {
  const GoldenCase router = c.object("router");
  const std::string& score = router.text("score");
  std::string text = "k = " + router.text("top_k") + "\n";
  if (router.given("scale")) text += "scaling = " + router.text("scale") + "\n";
  if (c.has("weight." + hf_gate(c) + ".bias")) text += "bias = true\n";
  const bool by_logit = c.text("formula").find("choice = logits") != std::string::npos;
  if (score == "sparsemixer")
    return "type = \"sparse_mixer\"\nepsilon = " + router.text("jitter_eps") + "\n" + text;
  if (score == "identity") {
    if (!router.given("softmax_over_k") || !router.flag("softmax_over_k"))
      unknown("logits as weights");
    return "type = \"softmax\"\n" + text + groups(router);
  }
  text += normalizer(router);
  if (c.has("weight.gate.tid2eid")) return hashed(c, score) + text;
  text += groups(router);
  if (score == "softmax") return "type = \"softmax\"\nscore_first = true\n" + text;
  if (score != "sigmoid" && score != "sqrtsoftplus") unknown("score " + score);
  if (by_logit) text += "choose_by = \"logit\"\n";
  return "type = " + quoted(score) + "\n" + text;
}

std::string activation(const GoldenCase& expert) {
  const std::string& kind = expert.text("kind");
  if (kind == "gpt_oss")
    return "{ type = \"clamped_swiglu\", offset = 1.0, alpha = " + expert.text("alpha") +
           ", limit = " + expert.text("limit") + " }";
  if (kind == "clamped_swiglu")
    return "{ type = \"clamped_swiglu\", offset = 0.0, alpha = 1.0, limit = " +
           expert.text("limit") + " }";
  if (kind == "relu2") return quoted("relu2");
  if (kind == "swiglu" || kind == "dbrx" || kind == "llama4") return quoted("swiglu");
  unknown("expert kind " + kind);
}

std::string mlp_table(const std::string& act, Index width, bool bias) {
  return "activation = " + act + "\nwidth = " + std::to_string(width) +
         (bias ? "\nbias = true\n" : "\n");
}

std::string layer_recipe(const GoldenCase& c, const HfWeights& weights) {
  const Index networks = c.integer("experts_with_weights");
  const GoldenCase expert = c.object("expert"), router = c.object("router");
  const std::string act = activation(expert);
  std::string text = "kind = \"moe\"\nnum_experts = " + std::to_string(networks) + "\n";
  const Index free = c.tensor("router_logits").size(1) - networks;
  if (c.given("bias")) text += "balancers = { expert_bias = {} }\n";
  text += "[part.router]\n" + router_table(c);
  text += "[part.experts]\n" + mlp_table(act, weights.expert_width(), weights.expert_bias());
  if (router.given("apply")) {
    if (router.text("apply") != "input") unknown("apply " + router.text("apply"));
    text += "weight_at = \"input\"\n";
  }
  if (free > 0) text += "[part.free_experts.copy]\ncount = " + std::to_string(free) + "\n";
  if (c.given("shared"))
    text += std::string("[part.shared]\ntype = ") +
            quoted(c.object("shared").given("gate") ? "gated" : "plain") + "\n" +
            mlp_table(act, weights.shared_width(), false);
  return text;
}

// --- one layer ---

struct Run {
  Values logits, weights, y, x_gradient;
  std::shared_ptr<const RoutingPlan> plan;
  std::map<std::string, HfWeights::Compared> gradients;  // by their tensor
};

Tokens block_tokens(const Backend& backend, const GoldenCase& c) {
  const GoldenTensor& input = c.tensor("input");
  const Tokens tokens = make_tokens(backend, input.size(0), input.size(1));
  if (c.has("token_ids"))
    std::ranges::transform(c.tensor("token_ids").values, tokens.id_T.data<std::int32_t>(),
                           [](double id) { return static_cast<std::int32_t>(id); });
  return tokens;
}

void set_state(const GoldenCase& c, const Backend& backend, Ffn& layer) {
  for (const auto& [name, tensor] : layer.state()->all()) {
    if (name == "layer.gate.tid2eid")
      std::ranges::transform(c.tensor("weight.gate.tid2eid").values, tensor.data<std::int64_t>(),
                             [](double id) { return static_cast<std::int64_t>(id); });
    if (name == "layer.balancers.expert_bias.bias")
      copy(reals(backend, tensor.dtype(), tensor.shape(),
                 c.tensor("weight." + c.text("bias")).values),
           tensor);
  }
}

// The layer that the recipe describes, if a run would take it.
Component<Ffn> checked(const std::string& recipe, Index hidden, const Tokens& tokens) {
  const Component<Ffn> layer = component<Ffn>(recipe);
  Ffn::Facts facts;
  facts.hidden = hidden;
  facts.rows_per_micro_batch = facts.rows_per_evaluation = tokens.rows;
  facts.length = tokens.length;
  facts.dp = 1;
  facts.ep = 1;
  Report report;
  layer.check(facts, report);
  for (const Problem& problem : report.problems())
    if (problem.severity == Problem::Severity::error) throw std::runtime_error(problem.line());
  return layer;
}

Run run_layer(const GoldenCase& c, const HfWeights& weights, DType dtype, RankContext& ranks) {
  const Backend& backend = *ranks.backend;
  const Index hidden = c.tensor("input").size(2);
  const Tokens tokens = block_tokens(backend, c);
  const auto made = checked(layer_recipe(c, weights), hidden, tokens)
                        .make({ranks, dtype, hidden, 0, 0.02, 0.02, 0.02, "layer"});
  Ffn& layer = *made;
  layer.parameters([&](Parameter& p) { weights.load(backend, p); });
  set_state(c, backend, layer);
  const StepFacts facts{[](ScopeSpec) { return Index{1}; }, tokens.count()};
  Moment moment;
  moment.phase = Phase::eval;
  Tape tape(*ranks.backend);
  const Shape shape{tokens.count(), hidden};
  const Variable x_TH = tape.input(reals(backend, dtype, shape, c.tensor("input").values));
  const FfnOutput out = layer.forward(tape, {x_TH, tokens, moment, facts});
  Run run;
  run.logits = doubles(out.routing->logits_TE.value);
  run.weights = doubles(out.routing->weight_P.value);
  run.y = doubles(out.y_TH.value);
  run.plan = out.routing->plan;
  tape.seed(out.y_TH, reals(backend, dtype, shape, c.tensor("cotangent").values));
  tape.backward();
  run.x_gradient = doubles(tape.grad(x_TH.slot()));
  layer.parameters([&](Parameter& p) { weights.gradients(p, run.gradients); });
  return run;
}

void compare(Comparison& to, const GoldenCase& c, const Run& run) {
  const double tolerance = golden_tolerance(DType::f32);  // the data are float32
  to.same("router_logits", run.logits, c.tensor("router_logits"), tolerance);
  to.exact("topk_ids", run.plan->expert_P, c.tensor("topk_ids"));
  to.same("topk_weights", run.weights, c.tensor("topk_weights"), tolerance);
  to.same("output", run.y, c.tensor("output"), tolerance);
  to.same("grad.input", run.x_gradient, c.tensor("grad.input"), tolerance);
  for (const auto& [name, both] : run.gradients) to.same(name, both.got, both.want, tolerance);
  Values counts;
  for (const std::string& count : c.list("tokens_per_expert")) counts.push_back(std::stod(count));
  to.exact("tokens_per_expert", run.plan->counts_before_drop(), counts);
}

Outcome run_case(const GoldenCase& c) {
  // What these say follows from the tensors' shapes, or from the params that are read.
  c.ignore({"family", "module", "checkpoint_prefix", "config", "config.*", "seed", "top_k",
            "min_choice_gap", "bias"});
  const HfWeights weights(c);
  Comparison to;
  for (const DType dtype : {DType::f32, DType::f64})
    with_ranks(1, 1,
               [&](RankContext& ranks) { compare(to, c, run_layer(c, weights, dtype, ranks)); });
  return to.outcome();
}

const RegisterSuite registered{"hf_blocks", run_case};

}  // namespace
}  // namespace moelab::test
