// Whole MoE layers, forward and backward, against Megatron Core's own. Its padding mask acts on the
// losses only and it routes padding; ours routes none. So outputs are compared with every token
// valid, and masked losses run on their own. B sequences, S positions, T tokens, E experts.
#include "core/lab/layer_bench.h"
#include "core/moe/ffn.h"
#include "tests/golden_tests/megatron.h"
#include "tests/golden_tests/megatron_layer_recipe.h"
#include "tests/moe/moe_fixture.h"

namespace moelab::test {
namespace {

constexpr DType kDType = DType::f64;
constexpr double kTolerance = golden_tolerance(kDType);
using ByName = std::map<std::string, Values>;

struct TokensOfPass {  // of one pass, in our order
  Index rows = 0, length = 0;
  Values x, valid;
};

// What is differentiated: Σ cotangent · y + Σ factor of a loss · its value.
struct Objective {
  Values cotangent;                      // empty: not of y
  std::map<std::string, double> factor;  // by the loss's name
};

struct Pass {
  Values y, dx, weight_TE, dweight_TE, kept_TE;
  ByName gradients;  // by the case's names of the weights
  std::map<std::string, double> losses;
  std::shared_ptr<RoutingRecord> record;
};

Values dense(const RoutingPlan& plan, const Values& value_P) {
  Values out(static_cast<std::size_t>(plan.tokens * plan.experts), 0.0);
  for (Index t = 0; t < plan.tokens; ++t)
    for (Index p = plan.begin(t); p < plan.end(t); ++p) {
      const auto at = static_cast<std::size_t>(p);
      if (plan.fate_P[at] == PairFate::kept)
        out[static_cast<std::size_t>(t * plan.experts + plan.expert_P[at])] = value_P[at];
    }
  return out;
}

// Gives the layer's weights and the balancers' bias the case's values.
void fill(Ffn& layer, const GoldenCase& c) {
  layer.parameters([&](Parameter& p) {
    const Values& values = c.tensor(weight_name(p.name)).values;
    copy(reals(*Backend::cpu(), kDType, p.value.shape(), values), p.value);
  });
  if (!c.has("expert_bias")) return;
  for (const auto& [name, state] : layer.state()->all())
    if (name.ends_with("." + std::string(kBiasLabel) + ".bias"))
      copy(reals(*Backend::cpu(), kDType, state.shape(), c.tensor("expert_bias").values), state);
}

Pass run(const GoldenCase& c, const std::string& recipe, const TokensOfPass& given,
         const Objective& objective, RankContext& ranks) {
  Backend& backend = *ranks.backend;
  const Index hidden = c.integer("hidden_size");
  const auto layer =
      component<Ffn>(recipe).make({ranks, kDType, hidden, 0, 0.02, 0.02, 0.02, "test.mlp"});
  fill(*layer, c);
  const Tokens tokens = make_tokens(backend, given.rows, given.length, given.valid);
  Tape tape(backend);
  const Variable x_TH = tape.input(reals(backend, kDType, {tokens.count(), hidden}, given.x));
  StepFacts facts;
  facts.valid_tokens_in_step = static_cast<Index>(sum(given.valid));
  facts.instances_in_step = [&](ScopeSpec spec) {
    std::vector<Index> valid_of_row;
    for (Index b = 0; b < given.rows; ++b)
      valid_of_row.push_back(static_cast<Index>(sum(part(given.valid, given.rows, b))));
    return count_instances(spec, given.rows, valid_of_row);
  };
  layer->begin_step();
  const FfnOutput out = layer->forward(tape, {x_TH, tokens, {}, facts});
  const Routing& routing = *out.routing;
  const RoutingPlan& plan = *routing.plan;
  Pass pass;
  pass.y = doubles(out.y_TH.value);
  pass.weight_TE = dense(plan, doubles(routing.weight_P.value));
  pass.kept_TE = dense(plan, Values(plan.expert_P.size(), 1.0));
  pass.record = out.record;
  if (!objective.cotangent.empty())
    tape.seed(out.y_TH, reals(backend, kDType, out.y_TH.value.shape(), objective.cotangent));
  for (const LossTerm& term : out.losses) {
    pass.losses[term.name] = doubles(term.value.value)[0];
    if (const auto at = objective.factor.find(term.name); at != objective.factor.end())
      tape.seed(term.value, at->second);
  }
  Tensor dweight_P = backend.zeros(kDType, {plan.pairs()});
  tape.observe([&](const char*, bool, double) {  // it is gone when backward ends
    if (const Tensor now = tape.grad(routing.weight_P.slot())) copy(now, dweight_P);
  });
  tape.backward();
  pass.dweight_TE = dense(plan, doubles(dweight_P));
  pass.dx = doubles(tape.grad(x_TH.slot()));
  layer->parameters([&](Parameter& p) {
    pass.gradients[weight_name(p.name)] =
        p.grad_written ? doubles(p.grad) : Values(static_cast<std::size_t>(p.value.numel()));
  });
  return pass;
}

void add(Values& to, const Values& more, Index first = 0) {
  for (std::size_t i = 0; i < more.size(); ++i) to[i + static_cast<std::size_t>(first)] += more[i];
}

class LayerComparison {
 public:
  LayerComparison(const GoldenCase& c, RankContext& ranks)
      : c_(c), ranks_(ranks), length_(c.integer("seq_length")), batch_(c.integer("bsz")) {
    const auto count = static_cast<std::size_t>(length_ * batch_);
    x_ = by_sequence(c.tensor("hidden_states").values, length_, batch_);
    all_ = Values(count, 1.0);
    masked_ = c.has("padding_mask");
    valid_ = masked_ ? ones_minus(c.tensor("padding_mask").values) : all_;
    scale_ = c.number("loss_scale");
    per_token_ = c.flag("calculate_per_token_loss") ? sum(valid_) : 1.0;
  }

  Outcome compare() {
    const std::vector<AttachedLoss> losses = megatron_losses(c_);
    Objective objective;
    objective.cotangent = by_sequence(c_.tensor("cotangent").values, length_, batch_);
    if (!masked_)
      for (const AttachedLoss& loss : losses) objective.factor[loss.type] = factor(loss);
    pass_ = run(c_, layer_recipe(c_, masked_ ? std::vector<AttachedLoss>{} : losses),
                {batch_, length_, x_, all_}, objective, ranks_);
    compare_forward();
    Values attached;
    for (const AttachedLoss& loss : losses) {
      const double value = masked_ ? masked_loss(loss) : pass_.losses.at(loss.type);
      attached.push_back(value * loss.coefficient * per_token_);
    }
    if (!losses.empty())
      to_.same("attached loss", attached, c_.tensor("attached_loss"), kTolerance);
    compare_gradients();
    return to_.outcome();
  }

 private:
  double factor(const AttachedLoss& loss) const { return loss.coefficient * per_token_ * scale_; }
  Values theirs(const std::string& name) const {
    return by_sequence(c_.tensor(name).values, length_, batch_);
  }

  // The masked tokens as Megatron weighs them; its gradient is added to the pass's.
  double masked_loss(const AttachedLoss& loss) {
    if (loss.type != "sequence_aux_loss") return masked_part(loss, 0, batch_, 1.0);
    const double mean = sum(valid_) / static_cast<double>(batch_);
    double value = 0;
    for (Index b = 0; b < batch_; ++b)
      value += masked_part(loss, b, 1, sequence_factor(sum(part(valid_, batch_, b)), mean, batch_));
    return value;
  }
  double masked_part(const AttachedLoss& loss, Index first, Index rows, double multiple) {
    const auto rows_of = [&](const Values& v) {
      const auto size = static_cast<std::ptrdiff_t>(v.size()) / batch_;
      return Values(v.begin() + first * size, v.begin() + (first + rows) * size);
    };
    Objective objective;
    objective.factor[loss.type] = multiple * factor(loss);
    const Pass own = run(c_, layer_recipe(c_, {loss}),
                         {rows, length_, rows_of(x_), rows_of(valid_)}, objective, ranks_);
    add(pass_.dx, own.dx, first * static_cast<Index>(pass_.dx.size()) / batch_);
    for (const auto& [name, gradient] : own.gradients) add(pass_.gradients.at(name), gradient);
    return multiple * own.losses.at(loss.type);
  }

  void compare_forward() {
    to_.same("output", pass_.y, theirs("output"), kTolerance);
    to_.same("probs", pass_.weight_TE, theirs("probs"), kTolerance);
    Values map = theirs("routing_map");
    if (c_.flag("moe_pad_expert_input_to_capacity")) {  // kept ∪ filler: fillers weigh nothing
      const Values probs = theirs("probs");
      Values rows(pass_.record->kept_E.size(), 0.0), filled = rows;
      for (std::size_t i = 0; i < map.size(); ++i) {
        rows[i % rows.size()] += map[i];
        if (probs[i] == 0) map[i] = 0;
      }
      for (std::size_t e = 0; e < rows.size(); ++e)
        filled[e] = static_cast<double>(pass_.record->kept_E[e] + pass_.record->filler_E[e]);
      to_.exact("rows with filler", filled, rows);
    }
    to_.exact("map", pass_.kept_TE, map);
    if (c_.has("local_tokens_per_expert"))
      to_.exact("tokens per expert", pass_.record->kept_E, c_.tensor("local_tokens_per_expert"));
  }

  void compare_gradients() {
    Values dweight = theirs("grad_probs");
    for (std::size_t i = 0; i < dweight.size(); ++i)
      if (pass_.kept_TE[i] == 0) dweight[i] = 0;  // of filler rows
    to_.same("weights' gradient", pass_.dweight_TE, dweight, kTolerance);
    to_.same("input's gradient", pass_.dx, theirs("grad_hidden_states"), kTolerance);
    for (const auto& [name, gradient] : pass_.gradients)
      to_.same(name + "'s gradient", gradient, c_.tensor("grad_" + name), kTolerance);
  }

  const GoldenCase& c_;
  RankContext& ranks_;
  Index length_, batch_;
  Values x_, all_, valid_;
  bool masked_ = false;
  double per_token_ = 1, scale_ = 1;
  Pass pass_;
  Comparison to_;
};

Outcome run_case(const GoldenCase& c) {
  c.ignore({"compute_dtype", "num_layers", "num_attention_heads", "ffn_hidden_size",
            "bias_activation_fusion"});
  Outcome outcome;
  with_ranks(1, 1, [&](RankContext& ranks) { outcome = LayerComparison(c, ranks).compare(); });
  return outcome;
}

const RegisterSuite registered{"megatron_layer", run_case};

}  // namespace
}  // namespace moelab::test
