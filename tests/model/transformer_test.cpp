#include <doctest/doctest.h>

#include <cmath>
#include <map>

#include "core/autograd/functions.h"
#include "core/lab/layer_bench.h"
#include "core/lab/op_checks.h"
#include "tests/support/models.h"
#include "tests/support/tolerance.h"

using namespace moelab;
using namespace moelab::testing;

namespace {

constexpr Index kVocabulary = 40;

std::string recipe(const std::string& model_keys = "", const std::string& moe_keys = "") {
  return "[model]\nhidden = 16\nlayers = [\"dense\", \"moe*2\"]\nheads = 4\nkv_heads = 2\n"
         "init_std = 0.2\n" +
         model_keys +
         "[ffn.dense]\nkind = \"dense\"\nwidth = 24\n"
         "[ffn.moe]\nkind = \"moe\"\nnum_experts = 4\nrouter = { type = \"softmax\", k = 2 }\n"
         "experts = { type = \"grouped\", width = 8 }\n"
         "balancers.aux_loss = { coefficient = 0.01 }\n" +
         moe_keys;
}

std::vector<std::vector<std::int32_t>> drawn_rows(Index rows, Index length) {
  const Rng rng(7, "ids");
  std::vector<std::vector<std::int32_t>> out(static_cast<std::size_t>(rows));
  for (Index i = 0; i < rows * length; ++i)
    out[static_cast<std::size_t>(i / length)].push_back(
        static_cast<std::int32_t>(rng.below(static_cast<std::uint64_t>(i), kVocabulary)));
  return out;
}

struct Step {
  double loss = 0;
  std::vector<double> losses;
  std::vector<std::string> names;
  std::vector<Tensor> gradients;
  std::vector<std::shared_ptr<RoutingRecord>> records;
};

Step run_step(Transformer& model, const Batch& batch, const ForwardOptions& options = {},
              Moment moment = {}) {
  Step step;
  model.parameters([](Parameter& p) {
    p.grad = {};
    p.grad_written = false;
  });
  model.begin_step();
  Tape tape(model.backend());
  const ModelOutput out =
      model.forward(tape, batch.tokens, batch.target_T, moment, facts_of(batch.tokens), options);
  tape.seed(out.loss_sum, 1.0 / static_cast<double>(batch.tokens.count()));
  for (const LossTerm& term : out.losses) {
    tape.seed(term.value, term.coefficient);
    step.losses.push_back(number(term.value.value));
  }
  tape.backward();
  step.loss = number(out.loss_sum.value);
  step.records = out.records;
  model.parameters([&](Parameter& p) {
    step.gradients.push_back(p.grad);
    step.names.push_back(p.name);
  });
  return step;
}

void check_same_bits(const Step& a, const Step& b) {
  CHECK(a.loss == b.loss);
  CHECK(a.losses == b.losses);
  REQUIRE(a.gradients.size() == b.gradients.size());
  for (std::size_t i = 0; i < a.gradients.size(); ++i) {
    INFO(a.names[i]);
    CHECK(same_bits(a.gradients[i], b.gradients[i]));
  }
}

}  // namespace

TEST_CASE("recomputed blocks give the same bits, losses and gradients") {
  on_one_rank([](RankContext& ranks) {
    const std::string noisy =
        "dropper = { type = \"probs\", capacity_factor = 1.0 }\n"
        "balancers.sequence_aux_loss = { coefficient = 0.02 }\n"
        "balancers.global_aux_loss = { coefficient = 0.02 }\n"
        "balancers.z_loss = { coefficient = 0.001 }\nbalancers.expert_bias = {}\n";
    const Batch batch = batch_of(*ranks.backend, drawn_rows(4, 24));
    Transformer plain(spec_of(recipe("dropout = 0.1\n", noisy), kVocabulary, DType::f32), ranks);
    Transformer again(
        spec_of(recipe("dropout = 0.1\nrecompute = [\"block\"]\n", noisy), kVocabulary, DType::f32),
        ranks);
    const Step a = run_step(plain, batch), b = run_step(again, batch);
    CHECK(a.losses.size() == 8);
    check_same_bits(a, b);
    REQUIRE(a.records.size() == b.records.size());
    for (std::size_t i = 0; i < a.records.size(); ++i)
      CHECK(a.records[i]->kept_E == b.records[i]->kept_E);
    Index dropped = 0;
    for (const auto& record : a.records) dropped += record->dropped_capacity;
    CHECK(dropped > 0);
  });
}

TEST_CASE("recomputing repeats no collective") {
  const std::string moe_keys =
      "dispatcher = \"alltoall\"\ndropper = { type = \"probs\", capacity_factor = 1.0 }\n";
  const auto run = [&](const std::string& model_keys, Step& step) {
    std::vector<Index> calls(2, 0);
    on_ranks(2, 2, [&](RankContext& ranks) {
      Transformer model(spec_of(recipe(model_keys, moe_keys), kVocabulary, DType::f64), ranks);
      Batch batch = batch_of(*ranks.backend, drawn_rows(2, 12));
      batch.tokens.rows_global = 4;
      batch.tokens.first_row = 2 * ranks.rank;
      const auto made = [&] { return ranks.dp->traffic().calls + ranks.ep->traffic().calls; };
      const Index before = made();
      Step mine = run_step(model, batch);
      calls[static_cast<std::size_t>(ranks.rank)] = made() - before;
      if (ranks.rank == 0) step = std::move(mine);
    });
    return calls;
  };
  Step plain, again;
  const std::vector<Index> calls = run("", plain);
  CHECK(calls[0] > 0);
  CHECK(run("recompute = [\"block\"]\n", again) == calls);
  check_same_bits(plain, again);
}

TEST_CASE("documents packed into a row give what they give in rows of their own") {
  on_one_rank([](RankContext& ranks) {
    Transformer model(
        spec_of(recipe("qk_norm = true\nattention_bias = true\n"), kVocabulary, DType::f64), ranks);
    const auto rows = drawn_rows(2, 10);
    std::vector<std::int32_t> packed = rows[0];
    packed.insert(packed.end(), rows[1].begin(), rows[1].end());
    Batch one = batch_of(*ranks.backend, {packed});
    for (Index t = 0; t < 20; ++t) {
      one.tokens.position_T.data<std::int32_t>()[t] = static_cast<std::int32_t>(t % 10);
      one.tokens.document_T.data<std::int32_t>()[t] = static_cast<std::int32_t>(t / 10);
    }
    one.target_T.data<std::int32_t>()[9] = -1;
    const Step packed_step = run_step(model, one);
    const Step apart = run_step(model, batch_of(*ranks.backend, rows));
    CHECK(packed_step.loss == doctest::Approx(apart.loss).epsilon(tolerance(DType::f64).composed));
    for (std::size_t i = 0; i < apart.gradients.size(); ++i) {
      const OpError error = compare(packed_step.gradients[i], apart.gradients[i], apart.names[i]);
      INFO(error.where);
      CHECK(error.worst < tolerance(DType::f64).composed);
    }
  });
}

TEST_CASE("padding, wherever it stands, gives what removing it gives") {
  on_one_rank([](RankContext& ranks) {
    Transformer model(spec_of(recipe(), kVocabulary, DType::f64), ranks);
    const auto rows = drawn_rows(3, 8);
    std::vector<std::vector<std::int32_t>> padded;
    for (const auto& row : rows) {
      padded.push_back({0, 39});
      padded.back().insert(padded.back().end(), row.begin(), row.end());
      padded.back().insert(padded.back().begin() + 6, 17);
    }
    Batch batch = batch_of(*ranks.backend, padded);
    for (Index t = 0; t < batch.tokens.count(); ++t) {
      const Index column = t % 11;
      const bool padding = column < 2 || column == 6;
      const Index place = column - 2 - (column > 6 ? 1 : 0);
      const auto& row = rows[static_cast<std::size_t>(t / 11)];
      batch.tokens.valid_T.data<std::uint8_t>()[t] = padding ? 0 : 1;
      batch.tokens.position_T.data<std::int32_t>()[t] =
          padding ? 0 : static_cast<std::int32_t>(place);
      batch.target_T.data<std::int32_t>()[t] =
          padding || place == 7 ? -1 : row[static_cast<std::size_t>(place + 1)];
    }
    Step a = run_step(model, batch);
    const Step b = run_step(model, batch_of(*ranks.backend, rows));
    CHECK(a.loss == doctest::Approx(b.loss).epsilon(tolerance(DType::f64).composed));
    for (std::size_t i = 0; i < a.losses.size(); ++i)
      CHECK(a.losses[i] == doctest::Approx(b.losses[i]).epsilon(tolerance(DType::f64).composed));
    for (std::size_t i = 0; i < a.records.size(); ++i) {
      CHECK(a.records[i]->routed_E == b.records[i]->routed_E);
      CHECK(a.records[i]->valid_tokens == 24);
      CHECK(
          a.records[i]->token_entropy_sum ==
          doctest::Approx(b.records[i]->token_entropy_sum).epsilon(tolerance(DType::f64).composed));
    }
  });
}

TEST_CASE("forced routing is followed, and a recorded one reproduces its step") {
  on_one_rank([](RankContext& ranks) {
    Transformer model(spec_of(recipe(), kVocabulary, DType::f64), ranks);
    const Batch batch = batch_of(*ranks.backend, drawn_rows(2, 9));
    const Step free = run_step(model, batch);
    ModelOutput recorded;
    recorded.records = free.records;
    std::vector<ForcedRouting> forced = recorded_routing(recorded, 3);
    ForwardOptions options;
    options.forced = &forced;
    check_same_bits(free, run_step(model, batch, options));
    for (std::size_t p = 0; p < forced[2].expert_P.size(); ++p)
      forced[2].expert_P[p] = static_cast<std::int32_t>(p % 2);
    const Step other = run_step(model, batch, options);
    CHECK(other.records[1]->routed_E == std::vector<Index>{18, 18, 0, 0});
    CHECK(other.loss != free.loss);
  });
}

TEST_CASE("initial values depend on seed and name, not on layout, neighbours or order") {
  std::map<std::string, Tensor> whole;
  const auto each_piece = [](Transformer& model, const auto& visit) {
    model.parameters([&](Parameter& p) {
      for (const Piece& piece : p.pieces) visit(piece);
    });
  };
  on_one_rank([&](RankContext& ranks) {
    Transformer model(spec_of(recipe(), kVocabulary, DType::f64), ranks);
    each_piece(model, [&](const Piece& piece) { whole[piece.name] = piece.value; });
    CHECK(whole.contains("model.layers.2.mlp.experts.3.up_proj.weight"));
    CHECK(whole.contains("model.layers.0.mlp.gate_proj.weight"));
    CHECK(whole.contains("lm_head.weight"));
    for (const auto& [name, value] : whole)
      for (const auto& [other, values] : whole)
        if (name < other && name.find("norm") == std::string::npos)
          CHECK_FALSE(same_bits(value, values));
    Transformer next(spec_of(recipe("seed = 2\n"), kVocabulary, DType::f64), ranks);
    each_piece(next, [&](const Piece& piece) {
      CHECK((piece.name.find("norm") == std::string::npos) !=
            same_bits(piece.value, whole[piece.name]));
    });
  });
  std::size_t compared = 0;
  std::vector<std::size_t> of_rank(2, 0);
  on_ranks(2, 2, [&](RankContext& ranks) {
    Transformer model(spec_of(recipe(), kVocabulary, DType::f64), ranks);
    each_piece(model, [&](const Piece& piece) {
      of_rank[static_cast<std::size_t>(ranks.rank)] +=
          same_bits(piece.value, whole.at(piece.name)) ? 1 : 1000000;
    });
  });
  compared = of_rank[0] + of_rank[1];
  CHECK(compared > whole.size());
  CHECK(compared < 1000000);
}

TEST_CASE("projections into the residual stream start smaller, by the depth") {
  on_one_rank([](RankContext& ranks) {
    Transformer model(spec_of(recipe("router_init_std = 0.7\n"), kVocabulary, DType::f64), ranks);
    model.parameters([](Parameter& p) {
      if (p.init.kind != Init::Kind::normal) return;
      const bool output = p.name.find("o_proj") != std::string::npos ||
                          p.name.find("down_proj") != std::string::npos;
      const bool router = p.name.ends_with("mlp.gate.weight");
      INFO(p.name);
      CHECK(p.init.std == doctest::Approx(router ? 0.7 : output ? 0.2 / std::sqrt(6.0) : 0.2));
    });
  });
}

TEST_CASE("a step without any valid token has zero losses and finite gradients") {
  on_one_rank([](RankContext& ranks) {
    Transformer model(spec_of(recipe(), kVocabulary, DType::f32), ranks);
    Batch batch = batch_of(*ranks.backend, drawn_rows(2, 6));
    fill_zero(batch.tokens.valid_T);
    for (std::int32_t& target : batch.target_T.span<std::int32_t>()) target = -1;
    const Step step = run_step(model, batch);
    CHECK(step.loss == 0);
    for (const double loss : step.losses) CHECK(loss == 0);
    for (const Tensor& gradient : step.gradients)
      if (gradient)
        for (const float value : gradient.span<float>()) CHECK(value == 0);
  });
}

namespace {

// Σ over layers and tokens of expert 1's score: a loss that needs all layers at once.
class OverLayers final : public Balancer {
 public:
  struct Params {
    void describe(ParamVisitor&) {}
  };
  OverLayers(const Params&, const Context& context) : backend_(context.backend) {}
  std::optional<LossTerm> pooled_loss(Tape& tape, std::span<const Routing> layers,
                                      const BalancerInput& input) override {
    const std::vector<std::int32_t> instance_T(static_cast<std::size_t>(input.tokens.count()), 0);
    Variable sum;
    for (const Routing& layer : layers) {
      const Tensor coefficient_GE = backend_.zeros(DType::f64, {1, layer.plan->experts});
      coefficient_GE.data<double>()[1] = 1;
      const Variable of_layer =
          weighted_score_sum(tape, layer.scores_TE, coefficient_GE, instance_T);
      sum = sum ? add(tape, sum, of_layer) : of_layer;
    }
    return LossTerm{"over_layers", 0, sum, 0.5};
  }

 private:
  Backend& backend_;
};
const Register<Balancer, OverLayers> over_layers{"over_layers", "for this test"};

}  // namespace

TEST_CASE("a pooled loss sees every layer once, and its gradient reaches every router") {
  on_one_rank([](RankContext& ranks) {
    const Batch batch = batch_of(*ranks.backend, drawn_rows(2, 9));
    const std::string pooled = "balancers.over_layers = {}\n";
    Transformer plain(spec_of(recipe(), kVocabulary, DType::f64), ranks);
    Transformer model(spec_of(recipe("", pooled), kVocabulary, DType::f64), ranks);
    Transformer again(spec_of(recipe("recompute = [\"block\"]\n", pooled), kVocabulary, DType::f64),
                      ranks);
    const Step without = run_step(plain, batch), with = run_step(model, batch);
    REQUIRE(with.losses.size() == without.losses.size() + 1);
    double expected = 0;
    for (const auto& record : with.records) expected += record->score_sum_E[1];
    CHECK(with.losses.back() == doctest::Approx(expected).epsilon(tolerance(DType::f64).composed));
    int routers = 0;
    for (std::size_t i = 0; i < with.names.size(); ++i)
      if (with.names[i].ends_with("mlp.gate.weight")) {
        ++routers;
        CHECK_FALSE(same_bits(with.gradients[i], without.gradients[i]));
      }
    CHECK(routers == 2);
    check_same_bits(with, run_step(again, batch));
  });
}
