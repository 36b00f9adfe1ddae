// Routers whose choice owes nothing to the hidden state: hash, random, round_robin.
#include <algorithm>
#include <set>

#include "registry/error.h"
#include "tests/moe/moe_fixture.h"

using namespace moelab;
using namespace moelab::test;

namespace {

using Ids = std::vector<std::int32_t>;

struct Fixed {
  std::shared_ptr<Backend> backend = Backend::cpu();
  StateStore state{"layer"};
  std::unique_ptr<Router> router;
  Index experts;

  Fixed(const std::string& recipe, Index experts_, Index layer = 0) : experts(experts_) {
    router = component<Router>(recipe).make(
        {*backend, DType::f64, experts, experts, layer, "layer.gate", 0.5, state});
    router->parameters([](Parameter& p) { initialize(p, 5); });
  }
  Routing route(const Tokens& tokens, Moment moment = {}, const ForcedRouting* forced = nullptr) {
    Tape tape(*backend);
    std::vector<double> x(static_cast<std::size_t>(tokens.count() * experts), 0.5);
    const Variable x_TE = tape.input(reals(*backend, DType::f64, {tokens.count(), experts}, x));
    Routing routing =
        router->route(tape, {x_TE, tokens, moment, 0, forced, nullptr, {}, {}, nullptr});
    routing.plan->validate();
    return routing;
  }
  Ids ids(const Tokens& tokens, Moment moment = {}) { return route(tokens, moment).plan->expert_P; }
  Tokens words(const Ids& id_T) {
    Tokens tokens = make_tokens(*backend, 1, static_cast<Index>(id_T.size()));
    std::ranges::copy(id_T, tokens.id_T.data<std::int32_t>());
    return tokens;
  }
};

Moment at_step(Index step, Phase phase = Phase::train) {
  Moment moment;
  moment.step = step;
  moment.phase = phase;
  return moment;
}

Ids vocabulary(std::int32_t count) {
  Ids ids;
  for (std::int32_t id = 0; id < count; ++id) ids.push_back(id);
  return ids;
}

std::vector<Index> counts(const Ids& expert_P, Index experts) {
  std::vector<Index> out(static_cast<std::size_t>(experts), 0);
  for (const std::int32_t e : expert_P) ++out[static_cast<std::size_t>(e)];
  return out;
}

std::string problems_of(const std::string& toml, bool has_choice_bias = false) {
  Router::Facts facts{16, 8};
  facts.has_choice_bias = has_choice_bias;
  return problems<Router>(toml, facts);
}

}  // namespace

TEST_CASE("hash: the token id alone names the experts, each layer and seed in its own way") {
  const std::string recipe = "type = \"hash\"\nk = 2\n";
  Fixed hash(recipe, 16), other_layer(recipe, 16, 1), other_seed(recipe + "seed = 3", 16);
  const Tokens words = hash.words({5, 9, 5, 200, 9, 5});
  const Ids ids = hash.ids(words);
  for (const std::ptrdiff_t again : {4, 10})
    CHECK(std::equal(ids.begin(), ids.begin() + 2, ids.begin() + again));
  CHECK(std::equal(ids.begin() + 2, ids.begin() + 4, ids.begin() + 8));
  CHECK(hash.ids(words, at_step(7, Phase::inference)) == ids);
  CHECK(other_layer.ids(words) != ids);
  CHECK(other_seed.ids(words) != ids);
  const Ids first = hash.ids(hash.words(vocabulary(200)));
  CHECK(std::set<std::int32_t>(first.begin(), first.end()).size() == 16);
}

TEST_CASE("uniform weights: 1/k times scaling, scores are the choice, no parameters") {
  Fixed hash("type = \"hash\"\nk = 2\nscaling = 3.0", 4);
  Tokens tokens = make_tokens(*hash.backend, 1, 2, {1, 0});
  const Routing routing = hash.route(tokens);
  CHECK(doubles(routing.weight_P.value) == std::vector<double>{1.5, 1.5, 0, 0});
  const std::vector<double> scores = doubles(routing.scores_TE.value);
  for (Index e = 0; e < 4; ++e) {
    const bool chosen = routing.plan->expert_P[0] == e || routing.plan->expert_P[1] == e;
    CHECK(scores[static_cast<std::size_t>(e)] == (chosen ? 0.5 : 0));
    CHECK(scores[static_cast<std::size_t>(4 + e)] == 0);
  }
  CHECK(routing.plan->expert_P[2] == -1);
  int parameters = 0;
  hash.router->parameters([&](Parameter&) { ++parameters; });
  CHECK(parameters == 0);
  const ForcedRouting forced{{0, 2, 4}, {3, -1, -1, -1}};
  const Routing replayed = hash.route(tokens, {}, &forced);
  CHECK(replayed.plan->expert_P == forced.expert_P);
  CHECK(doubles(replayed.weight_P.value)[0] == 3.0);  // the only one present
}

TEST_CASE("a balanced table gives each expert as many token ids") {
  Fixed hash("type = \"hash\"\nk = 3\ntable = \"balanced\"\nvocabulary = 64", 8);
  const Ids ids = hash.ids(hash.words(vocabulary(64)));
  CHECK(counts(ids, 8) == std::vector<Index>(8, 24));
}

TEST_CASE("a table by frequency gives each expert as many occurrences") {
  Fixed hash("type = \"hash\"\nk = 1\ntable = \"frequency\"\ncounts = [2, 8, 4, 4, 2]", 2);
  CHECK(hash.ids(hash.words(vocabulary(5))) == Ids{0, 0, 1, 1, 1});
}

TEST_CASE("a stored table is state that a checkpoint may replace") {
  Fixed hash("type = \"hash\"\nk = 2\nstored = true\nvocabulary = 3", 4);
  const Tensor table = hash.state.all().at("layer.gate.tid2eid");
  REQUIRE(table.shape() == Shape{3, 2});
  std::ranges::copy(std::vector<std::int64_t>{3, 1, 0, 2, 2, 3}, table.data<std::int64_t>());
  CHECK(hash.ids(hash.words({2, 0})) == Ids{2, 3, 3, 1});
  table.data<std::int64_t>()[1] = 3;
  CHECK_THROWS_WITH_AS(hash.ids(hash.words({0})), doctest::Contains("names expert 3"), Error);
  CHECK_THROWS_WITH_AS(hash.ids(hash.words({3})), doctest::Contains("vocabulary"), Error);
}

TEST_CASE("random: even in the mean, drawn anew each step, the same on any layout") {
  Fixed random("type = \"random\"\nk = 3", 8);
  const Tokens tokens = make_tokens(*random.backend, 4, 500);
  const Ids ids = random.ids(tokens, at_step(1));
  for (const Index count : counts(ids, 8)) CHECK(std::abs(static_cast<double>(count) - 750) < 110);
  CHECK(random.ids(tokens, at_step(2)) != ids);
  const Ids half = random.ids(make_tokens(*random.backend, 2, 500, {}, 2, 4), at_step(1));
  CHECK(std::equal(half.begin(), half.end(), ids.begin() + 3000));
  const Tokens row = make_tokens(*random.backend, 1, 9);
  CHECK(random.ids(row, at_step(1, Phase::eval)) == random.ids(row, at_step(2, Phase::eval)));
  Tokens last = make_tokens(*random.backend, 1, 1);
  last.position_T.data<std::int32_t>()[0] = 8;  // the ninth token, after eight in the cache
  const Ids prompt = random.ids(row, at_step(0, Phase::inference));
  CHECK(random.ids(last, at_step(0, Phase::inference)) == Ids(prompt.end() - 3, prompt.end()));
}

TEST_CASE("round_robin: exactly even loads") {
  Fixed robin("type = \"round_robin\"\nk = 3", 8);
  CHECK(counts(robin.ids(make_tokens(*robin.backend, 3, 16)), 8) == std::vector<Index>(8, 18));
}

TEST_CASE("fixed choices name what has no effect on them") {
  CHECK(problems_of("type = \"random\"").empty());
  CHECK(problems_of("type = \"round_robin\"", true).find("choice bias has no effect") !=
        std::string::npos);
  CHECK(problems_of("type = \"random\"\nk = 9").find("raise num_experts") != std::string::npos);
  CHECK(problems_of("type = \"random\"\njitter = 0.1").find("uniform weights") !=
        std::string::npos);
  CHECK(problems_of("type = \"hash\"\ntable = \"balanced\"").find("is needed") !=
        std::string::npos);
  CHECK(problems_of("type = \"hash\"\ncounts = [1]").find("frequency") != std::string::npos);
}
