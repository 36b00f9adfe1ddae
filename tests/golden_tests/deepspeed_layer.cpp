// Whole MoE layers of DeepSpeed, forward and backward: Σ cotangent · y + weight · l_aux. With
// several ranks each has its own tokens, capacity and loss, and gradients are compared before any
// sum over ranks. T tokens of a rank, H hidden, E experts.
#include <stdexcept>

#include "core/lab/layer_bench.h"
#include "core/moe/ffn.h"
#include "registry/text.h"
#include "tests/golden_tests/deepspeed.h"
#include "tests/golden_tests/values.h"
#include "tests/moe/moe_fixture.h"

namespace moelab::test {
namespace {

constexpr DType kDType = DType::f32;
constexpr double kTolerance = golden_tolerance(kDType);

// Everything that ranks read of a case, which notes what it is asked for and so is no shared thing.
struct Setting {
  DeepSpeedGate gate;
  std::string recipe;
  Index world = 1, ep = 1, batch = 0, length = 0, hidden = 0, experts = 0;
  Values input, cotangent, used_token;
  double loss_weight = 0;
  std::map<std::string, Values> weights;
};

struct RankResult {
  Values output, loss, dx;
  std::vector<Index> counts;
  std::map<std::string, Values> gradients;
};

std::string network(const GoldenCase& c) {
  return str("width = ", c.text("hidden"), "\nactivation = { type = \"", c.text("activation"),
             "\" }\nbias = true");
}

std::string layer_recipe(const GoldenCase& c, const DeepSpeedGate& gate) {
  std::string recipe =
      str("kind = \"moe\"\nnum_experts = ", c.text("experts"),
          "\nrouter = ", inline_recipe(gate.router), "\ndropper = ", inline_recipe(gate.dropper),
          "\nexperts = ", inline_recipe("type = \"grouped\"\n" + network(c)),
          "\nbalancers.l_aux = ", inline_recipe(gate.balancer), "\n");
  if (c.flag("use_residual"))
    recipe += "shared = " + inline_recipe("type = \"residual\"\n" + network(c)) + "\n";
  return recipe;
}

Setting setting_of(const GoldenCase& c) {
  Setting s;
  s.gate = deepspeed_gate(c);
  s.batch = c.integer("batch");
  s.length = c.integer("sequence");
  s.hidden = c.integer("model");
  s.experts = c.integer("experts");
  if (c.given("world")) {
    s.world = c.integer("world");
    s.ep = c.integer("ep");
    const std::string own = str("\nscope = \"group\"\ngroup_size = ", s.batch);  // a rank's rows
    if (s.gate.drops) s.gate.dropper += own;
    s.gate.balancer += own;
  }
  s.recipe = layer_recipe(c, s.gate);
  s.input = c.tensor("input").values;
  s.cotangent = c.tensor("cotangent").values;
  if (c.has("used_token")) s.used_token = c.tensor("used_token").values;
  s.loss_weight = c.given("l_aux_weight") ? c.number("l_aux_weight") : 0;
  std::vector<std::string> networks{""};
  if (c.flag("use_residual")) networks.emplace_back("residual_");
  std::vector<std::string> names{"gate_weight"};
  if (c.flag("use_residual")) names.insert(names.end(), {"coefficient_weight", "coefficient_bias"});
  for (const std::string& of : networks)
    for (const char* part : {"fc1_weight", "fc1_bias", "fc2_weight", "fc2_bias"})
      names.push_back(of + part);
  for (const std::string& name : names) s.weights[name] = c.tensor(name).values;
  return s;
}

// "test.mlp.experts.up_proj.weight" → "fc1_weight".
std::string weight_name(const std::string& parameter) {
  const std::string kind = parameter.ends_with(".bias") ? "_bias" : "_weight";
  const auto has = [&](const char* part) { return parameter.find(part) != std::string::npos; };
  if (has(".gate.")) return "gate" + kind;
  if (has(".coefficient.")) return "coefficient" + kind;
  const std::string of = has(".experts.") ? "" : "residual_";
  if (has(".up_proj.")) return of + "fc1" + kind;
  if (has(".down_proj.")) return of + "fc2" + kind;
  throw std::runtime_error("the case has no weight for " + parameter);
}

// One rank's layer and tokens.
class RankRun {
 public:
  RankRun(const Setting& setting, const NoiseSource& noise, RankContext& ranks)
      : s_(setting),
        noise_(noise),
        backend_(*ranks.backend),
        rank_(ranks.rank),
        tokens_(
            make_tokens(backend_, s_.batch, s_.length, {}, rank_ * s_.batch, s_.world * s_.batch)),
        tape_(backend_),
        layer_(component<Ffn>(s_.recipe).make(
            {ranks, kDType, s_.hidden, 0, 0.02, 0.02, 0.02, "test.mlp"})) {
    const Index at = ranks.ep ? ranks.ep->rank() : 0;
    layer_->parameters([&](Parameter& p) {
      const Values& all = s_.weights.at(weight_name(p.name));
      const Values own =
          p.placement == Placement::expert ? part(all, s_.ep, at) : all;  // experts of the rank
      copy(reals(backend_, kDType, p.value.shape(), own), p.value);
    });
    facts_.valid_tokens_in_step = tokens_.count() * s_.world;
    facts_.instances_in_step = [](ScopeSpec) { return Index{1}; };  // each rank its own loss
  }

  RankResult run() {
    const Variable x_TH = tape_.input(mine(s_.input));
    const FfnOutput out = forward(x_TH);
    const Variable loss = l_aux(out);
    RankResult result{doubles(out.y_TH.value), doubles(loss.value), {}, out.record->routed_E, {}};
    tape_.seed(out.y_TH, mine(s_.cotangent));
    tape_.seed(loss, s_.loss_weight);
    tape_.backward();
    result.dx = doubles(tape_.grad(x_TH.slot()));
    layer_->parameters(
        [&](Parameter& p) { result.gradients[weight_name(p.name)] = doubles(p.grad); });
    return result;
  }

 private:
  Tensor mine(const Values& all) const {
    return reals(backend_, kDType, {tokens_.count(), s_.hidden}, part(all, s_.world, rank_));
  }

  FfnOutput forward(const Variable& x_TH) {
    Moment moment;
    moment.phase = s_.gate.phase;
    layer_->begin_step();
    FfnInput input{x_TH, tokens_, moment, facts_, nullptr, &noise_};
    if (s_.used_token.empty()) return layer_->forward(tape_, input);
    Tape free(backend_, Tape::Mode::forward);
    const ForcedRouting forced = without_unused(*layer_->forward(free, input).routing->plan,
                                                part(s_.used_token, s_.world, rank_));
    input.forced = &forced;
    return layer_->forward(tape_, input);
  }

  // Balancers rest in evaluation, DeepSpeed's loss does not.
  Variable l_aux(const FfnOutput& out) {
    if (!out.losses.empty()) return out.losses.front().value;
    return BalancerBench(s_.gate.balancer, s_.experts, s_.gate.k, kDType)
        .loss(tape_, *out.routing, tokens_, 1)
        .value;
  }

  const Setting& s_;
  const NoiseSource& noise_;
  Backend& backend_;
  Index rank_;
  Tokens tokens_;
  Tape tape_;
  std::unique_ptr<Ffn> layer_;
  StepFacts facts_;
};

Values joined(const std::vector<RankResult>& ranks, const auto& of) {
  Values out;
  for (const RankResult& rank : ranks) {
    const auto& own = of(rank);
    out.insert(out.end(), own.begin(), own.end());
  }
  return out;
}

Outcome compare(const GoldenCase& c, const Setting& s, const std::vector<RankResult>& ranks) {
  Comparison to;
  const auto same = [&](const std::string& name, const auto& of) {
    to.same(name, joined(ranks, of), c.tensor(name), kTolerance);
  };
  same("output", [](const RankResult& r) -> const Values& { return r.output; });
  same("l_aux", [](const RankResult& r) -> const Values& { return r.loss; });
  same("grad_input", [](const RankResult& r) -> const Values& { return r.dx; });
  for (const auto& [name, gradient] : ranks.front().gradients)
    same("grad_" + name,
         [&](const RankResult& r) -> const Values& { return r.gradients.at(name); });
  to.exact("exp_counts", joined(ranks, [](const RankResult& r) -> const auto& { return r.counts; }),
           c.tensor("exp_counts"));
  const std::vector<std::string> capacity = c.list(s.world > 1 ? "rank_capacity" : "capacity");
  for (std::size_t r = 0; r < ranks.size(); ++r)
    to.exact("capacity", deepspeed_rows(s.gate, s.batch * s.length, ranks[r].counts),
             std::stod(capacity.at(r)));
  return to.outcome();
}

Outcome run_case(const GoldenCase& c) {
  c.ignore({"used_share"});
  if (!c.flag("drop_tokens")) c.ignore({"rts"});
  const Setting setting = setting_of(c);
  std::vector<NoiseSource> noise;
  for (Index r = 0; r < setting.world; ++r) noise.push_back(recorded_noise(c, r, setting.world));
  std::vector<RankResult> results(static_cast<std::size_t>(setting.world));
  with_ranks(static_cast<int>(setting.world), static_cast<int>(setting.ep),
             [&](RankContext& ranks) {
               const auto at = static_cast<std::size_t>(ranks.rank);
               results[at] = RankRun(setting, noise[at], ranks).run();
             });
  return compare(c, setting, results);
}

const RegisterSuite registered{"deepspeed_layer", run_case};

}  // namespace
}  // namespace moelab::test
