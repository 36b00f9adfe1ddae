#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "core/model/generate.h"
#include "tests/support/models.h"
#include "tests/support/tolerance.h"

using namespace moelab;
using namespace moelab::testing;

namespace {

constexpr Index kVocabulary = 40;
const std::string small_recipe =
    "[model]\nhidden = 16\nlayers = [\"dense\", \"moe*2\"]\nheads = 4\nkv_heads = 2\n"
    "init_std = 0.3\n[ffn.dense]\nkind = \"dense\"\nwidth = 24\n"
    "[ffn.moe]\nkind = \"moe\"\nnum_experts = 4\nrouter = { type = \"softmax\", k = 2 }\n"
    "experts = { type = \"grouped\", width = 8 }\n";

Tensor last_logits(Transformer& model, const std::vector<std::int32_t>& ids) {
  const Batch batch = batch_of(model.backend(), {ids});
  const StepFacts facts = facts_of(batch.tokens);
  Moment moment;
  moment.phase = Phase::inference;
  ForwardOptions options;
  options.want_logits = true;
  Tape tape(model.backend(), Tape::Mode::forward);
  const Variable logits = model.forward(tape, batch.tokens, {}, moment, facts, options).logits_TV;
  return logits.value[batch.tokens.count() - 1];
}

Tensor logits_of(const Backend& backend, const std::vector<double>& values) {
  const Tensor out = backend.empty(DType::f64, {static_cast<Index>(values.size())});
  std::ranges::copy(values, out.data<double>());
  return out;
}

}  // namespace

TEST_CASE("greedy generation with a cache equals recomputing everything for each token") {
  for (const DType dtype : {DType::f32, DType::f64})
    on_one_rank([&](RankContext& ranks) {
      Transformer model(spec_of(small_recipe, kVocabulary, dtype), ranks);
      const std::vector<std::int32_t> prompt{3, 1, 4, 1, 5};
      Sampling greedy;
      greedy.temperature = 0;
      greedy.tokens = 24;
      std::vector<std::int32_t> seen;
      const auto generated =
          generate(model, prompt, greedy, [&](std::int32_t token) { seen.push_back(token); });
      CHECK(seen == generated);
      REQUIRE(generated.size() == 24);
      std::vector<std::int32_t> ids = prompt;
      int decided = 0;
      for (const std::int32_t token : generated) {
        const Tensor logits = last_logits(model, ids);
        std::vector<double> sorted;
        dispatch_real(dtype, "logits", [&](auto tag) {
          for (const auto value : logits.span<decltype(tag)>())
            sorted.push_back(static_cast<double>(value));
        });
        const double of_token = sorted[static_cast<std::size_t>(token)];
        std::ranges::sort(sorted, std::ranges::greater{});
        const double gap = tolerance(dtype).composed * (1 + std::abs(sorted[0]));
        CHECK(of_token >= sorted[0] - gap);
        decided += sorted[0] - sorted[1] > gap ? 1 : 0;
        ids.push_back(token);
      }
      CHECK(decided > 12);
    });
}

TEST_CASE("sampling: temperature 0, top-k, top-p, seeds") {
  const auto backend = Backend::cpu();
  const Tensor logits = logits_of(*backend, {0.0, 2.0, 1.0, 2.0, -1.0});
  Sampling s;
  s.temperature = 0;
  CHECK(sample_token(logits, s, 0) == 1);  // the lower id of two equals
  s.temperature = 1;
  s.top_k = 1;
  for (Index i = 0; i < 20; ++i) CHECK(sample_token(logits, s, i) == 1);
  s.top_k = 0;
  s.top_p = 0.5;  // the two likeliest have .39 each
  for (Index i = 0; i < 50; ++i) {
    const auto token = sample_token(logits, s, i);
    CHECK((token == 1 || token == 3));
  }
  s.top_p = 1.0;
  std::map<std::int32_t, int> count;
  constexpr int kDraws = 4000;
  for (Index i = 0; i < kDraws; ++i) ++count[sample_token(logits, s, i)];
  double total = 0;
  for (const double logit : {0.0, 2.0, 1.0, 2.0, -1.0}) total += std::exp(logit);
  for (const auto& [token, n] : count) {
    const double p = std::exp(logits.data<double>()[token]) / total;
    CHECK(static_cast<double>(n) / kDraws == doctest::Approx(p).epsilon(0.25));
  }
  s.seed = 2;
  std::vector<std::int32_t> a, b, c;
  for (Index i = 0; i < 40; ++i) a.push_back(sample_token(logits, s, i));
  for (Index i = 0; i < 40; ++i) b.push_back(sample_token(logits, s, i));
  s.seed = 3;
  for (Index i = 0; i < 40; ++i) c.push_back(sample_token(logits, s, i));
  CHECK(a == b);
  CHECK(a != c);
}

namespace {

class Peeking final : public Ffn {  // routing that depends on later tokens
 public:
  struct Params {
    void describe(ParamVisitor&) {}
    Ffn::Traits traits() const {
      Ffn::Traits traits;
      traits.causal = false;
      return traits;
    }
  };
  Peeking(const Params&, const Context&) {}
  FfnOutput forward(Tape&, const FfnInput& input) override { return {input.x_TH, {}, {}, {}}; }
  void parameters(const std::function<void(Parameter&)>&) override {}
};
const Register<Ffn, Peeking> peeking{"peeking", "for this test"};

}  // namespace

TEST_CASE("a model whose routing is not causal does not generate") {
  on_one_rank([](RankContext& ranks) {
    Transformer model(spec_of("[model]\nhidden = 16\nheads = 2\nkv_heads = 2\nlayers = [\"odd\"]\n"
                              "[ffn.odd]\nkind = \"peeking\"\n",
                              kVocabulary, DType::f32),
                      ranks);
    CHECK_THROWS_AS(generate(model, {1, 2}, {}), const Error&);
    Transformer dropping(
        spec_of("[model]\nhidden = 16\nheads = 2\nkv_heads = 2\nlayers = [\"moe\"]\n"
                "[ffn.moe]\nkind = \"moe\"\n"
                "dropper = { type = \"probs\", drop_in_inference = true }\n",
                kVocabulary, DType::f32),
        ranks);
    CHECK_THROWS_WITH_AS(generate(dropping, {1, 2}, {}), doctest::Contains("drop_in_inference"),
                         const Error&);
  });
}

TEST_CASE("ids that the tokenizer does not know are never generated") {
  on_one_rank([](RankContext& ranks) {
    ModelSpec spec = spec_of(small_recipe, kVocabulary, DType::f32);
    spec.tokens = 3;
    Transformer model(spec, ranks);
    Sampling sampling;
    sampling.temperature = 5;
    sampling.tokens = 64;
    for (const std::int32_t token : generate(model, {1, 2}, sampling)) CHECK(token < 3);
  });
}

TEST_CASE("an empty prompt and logits that are not finite are errors for users") {
  on_one_rank([](RankContext& ranks) {
    Transformer model(spec_of(small_recipe, kVocabulary, DType::f32), ranks);
    CHECK_THROWS_AS(generate(model, {}, {}), const Error&);
  });
  const auto backend = Backend::cpu();
  CHECK_THROWS_AS(sample_token(logits_of(*backend, {0, std::nan("")}), {}, 0), const Error&);
}

TEST_CASE("ranks that share the experts generate what one rank generates") {
  const std::vector<std::int32_t> prompt{3, 1, 4, 1, 5};
  Sampling sampling;
  sampling.tokens = 12;
  std::vector<std::int32_t> alone;
  on_one_rank([&](RankContext& ranks) {
    Transformer model(spec_of(small_recipe, kVocabulary, DType::f64), ranks);
    alone = generate(model, prompt, sampling);
  });
  std::vector<std::vector<std::int32_t>> together(2);
  on_ranks(2, 2, [&](RankContext& ranks) {
    Transformer model(spec_of(small_recipe, kVocabulary, DType::f64), ranks);
    together[static_cast<std::size_t>(ranks.rank)] = generate(model, prompt, sampling);
  });
  CHECK(together[0] == alone);
  CHECK(together[1] == alone);
}
