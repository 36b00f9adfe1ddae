// Routers that choose across tokens give the same on any number of ranks, for every scope.
#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>

#include "core/comm/world.h"
#include "core/moe/column_order.h"
#include "tests/moe/moe_fixture.h"

using namespace moelab;
using namespace moelab::test;

namespace {

constexpr Index kRows = 8, kLength = 6, kExperts = 5;

std::vector<double> all_logits() {
  const Rng rng(23, "test/across ranks");
  std::vector<double> logits;
  for (Index i = 0; i < kRows * kLength * kExperts; ++i)  // one sequence is unlike the others
    logits.push_back(rng.normal(static_cast<std::uint64_t>(i)) +
                     (i / kExperts / kLength == 2 ? static_cast<double>(i % kExperts) : 0.0));
  return logits;
}

std::vector<double> validity() {  // a sequence, and an instance of two, are padding
  std::vector<double> valid;
  for (Index t = 0; t < kRows * kLength; ++t)
    valid.push_back(t % 11 == 3 || t / kLength == 5 || t / kLength / 2 == 0 ? 0 : 1);
  return valid;
}

template <class T>
std::vector<T> cut(const std::vector<T>& all, Index first, Index rows) {
  const auto width = static_cast<Index>(all.size()) / kRows;
  return {all.begin() + first * width, all.begin() + (first + rows) * width};
}

struct Found {
  std::vector<double> map, price;
};

Found run(const std::string& recipe, int ranks) {
  Found out;
  out.map.resize(kRows * kLength * kExperts);
  std::mutex guard;
  Component<World>("inproc").make({.ranks = ranks})->run([&](Rank& rank) {
    const Index rows = kRows / ranks, first = rank.rank() * rows;
    RouterBench bench(recipe, kExperts, DType::f64);
    const Tokens tokens =
        make_tokens(bench.backend(), rows, kLength, cut(validity(), first, rows), first, kRows);
    bench.route(tokens, cut(all_logits(), first, rows), {}, {}, nullptr, rank.everyone());
    bench.router().after_step({});
    const std::lock_guard lock(guard);
    std::ranges::copy(bench.map(), out.map.begin() + first * kLength * kExperts);
    if (bench.state().all().empty()) return;
    const std::vector<double> price = doubles(bench.state().all().at("test.gate.price"));
    CHECK((out.price.empty() || out.price == price));  // the same on every rank
    out.price = price;
  });
  return out;
}

}  // namespace

TEST_CASE("routing across tokens is the same on 1, 2 and 4 ranks for every scope") {
  for (const char* type : {"sinkhorn", "quantile", "expert_choice"})
    for (const char* scope : {"scope = \"sequence\"", "scope = \"group\"\ngroup_size = 2",
                              "scope = \"group\"\ngroup_size = 4", "scope = \"batch\""}) {
      CAPTURE(type);
      CAPTURE(scope);
      const std::string recipe = str("type = \"", type, "\"\n", scope);
      const Found one = run(recipe, 1);
      for (const int ranks : {2, 4}) {
        const Found many = run(recipe, ranks);
        CHECK(many.map == one.map);
        REQUIRE(many.price.size() == one.price.size());
        for (std::size_t e = 0; e < one.price.size(); ++e)
          CHECK(many.price[e] == doctest::Approx(one.price[e]).epsilon(1e-13));
      }
    }
}

TEST_CASE("the value at a rank of a column has the same bits on every layout, ties and all") {
  std::vector<double> values = all_logits();
  for (std::size_t i = 0; i < values.size(); i += 3) values[i] = std::round(values[i]);
  values[7] = std::numeric_limits<double>::quiet_NaN();
  for (const ScopeSpec spec : {ScopeSpec{ScopeKind::group, 4}, ScopeSpec{ScopeKind::batch, 0}})
    for (const double rank_of_all : {0.0, 4.0, 9.5, 16.75, 1000.0}) {
      std::vector<double> one;
      for (const int ranks : {1, 2, 4, 8})
        Component<World>("inproc").make({.ranks = ranks})->run([&](Rank& rank) {
          const auto backend = Backend::cpu();
          const Index rows = kRows / ranks, first = rank.rank() * rows;
          const Tokens tokens =
              make_tokens(*backend, rows, kLength, cut(validity(), first, rows), first, kRows);
          const ScopeMap scope(spec, tokens, rank.everyone());
          const Tensor part =
              reals(*backend, DType::f64, {rows * kLength, kExperts}, cut(values, first, rows));
          const std::vector<double> rank_G(static_cast<std::size_t>(scope.instances()),
                                           rank_of_all);
          const std::vector<double> got = doubles(column_at_rank(part, rank_G, scope, tokens));
          if (ranks == 1) {
            one = got;
            return;
          }
          const auto begin = one.begin() + scope.first_instance() * kExperts;
          CHECK(got == std::vector<double>(begin, begin + scope.instances() * kExperts));
        });
    }
}
