// Scopes over ranks: every rank holds a contiguous part of the rows, and nothing depends on where
// the cuts are.
#include <algorithm>
#include <mutex>
#include <numeric>

#include "core/comm/world.h"
#include "tests/moe/moe_fixture.h"

using namespace moelab;
using namespace moelab::test;

namespace {

constexpr Index kRows = 8, kLength = 5, kExperts = 3;

// body(group, first row, rows) as each of `ranks` ranks; `uneven` gives the first one row more.
void over_ranks(int ranks, bool uneven,
                const std::function<void(std::shared_ptr<Group>, Index, Index)>& body) {
  const auto world = Component<World>("inproc").make({.ranks = ranks});
  world->run([&](Rank& rank) {
    const Index share = kRows / ranks, extra = uneven && ranks > 1 ? 1 : 0;
    const Index first = rank.rank() * share + (rank.rank() > 0 ? extra : 0);
    const Index end = (rank.rank() + 1) * share + (rank.rank() + 1 < ranks ? extra : 0);
    body(rank.everyone(), first, end - first);
  });
}

std::vector<double> some_valid() {  // rows 2 and 3 are padding as a whole, and every seventh token
  std::vector<double> valid;
  for (Index t = 0; t < kRows * kLength; ++t)
    valid.push_back(t / kLength == 2 || t / kLength == 3 || t % 7 == 0 ? 0 : 1);
  return valid;
}

Tokens share_of(const Backend& backend, Index first, Index rows) {
  const std::vector<double> all = some_valid();
  return make_tokens(backend, rows, kLength,
                     {all.begin() + first * kLength, all.begin() + (first + rows) * kLength}, first,
                     kRows);
}

const std::vector<ScopeSpec> kScopes{
    {ScopeKind::sequence, 0}, {ScopeKind::group, 2}, {ScopeKind::group, 4}, {ScopeKind::batch, 0}};

struct Exchange {  // what the ranks found, by global instance
  std::mutex guard;
  std::vector<Index> valid, sums, greatest;
};

}  // namespace

TEST_CASE("tables over scope instances are reduced over the ranks that share them") {
  for (const ScopeSpec spec : kScopes)
    for (const auto& [ranks, uneven] : {std::pair{1, false}, {2, false}, {2, true}, {4, false}}) {
      // Uneven cuts only where instances span ranks anyway.
      if (uneven && spec.kind != ScopeKind::batch && spec.group_size != 2) continue;
      if (uneven && spec.kind == ScopeKind::group) continue;
      CAPTURE(ranks);
      const Index size = spec.kind == ScopeKind::sequence ? 1
                         : spec.kind == ScopeKind::batch  ? kRows
                                                          : spec.group_size;
      const auto instances = static_cast<std::size_t>(kRows / size);
      std::vector<Index> valid(instances, 0), sums(instances, 0), prefixes(kRows, 0);
      const std::vector<double> mask = some_valid();
      for (std::size_t t = 0; t < mask.size(); ++t)
        valid[t / static_cast<std::size_t>(kLength * size)] += mask[t] != 0 ? 1 : 0;
      for (Index r = 0; r < kRows; ++r) sums[static_cast<std::size_t>(r / size)] += r + 1;
      std::mutex guard;
      over_ranks(ranks, uneven, [&](std::shared_ptr<Group> dp, Index first, Index rows) {
        const auto backend = Backend::cpu();
        const Tokens tokens = share_of(*backend, first, rows);
        const ScopeMap map(spec, tokens, dp);
        const Tensor table = backend->zeros(DType::i64, {map.instances(), 1});
        const Tensor most = backend->empty(DType::f64, {map.instances(), 1});
        std::fill_n(most.data<double>(), map.instances(), -1e9);
        const Tensor before = backend->zeros(DType::i64, {map.instances(), 1});
        for (Index r = 0; r < rows; ++r) {
          const Index at = map.instance_of(r * kLength);
          table.data<std::int64_t>()[at] += first + r + 1;
          double& m = most.data<double>()[at];
          m = std::max(m, -static_cast<double>(first + r));
        }
        map.exclusive_prefix(table, before);
        map.reduce(table);
        map.reduce(most, Reduce::max);
        const std::lock_guard lock(guard);
        for (Index g = 0; g < map.instances(); ++g) {
          const auto global = static_cast<std::size_t>(map.first_instance() + g);
          CHECK(map.valid()[static_cast<std::size_t>(g)] == valid[global]);
          CHECK(table.data<std::int64_t>()[g] == sums[global]);
          CHECK(most.data<double>()[g] == -static_cast<double>(global) * static_cast<double>(size));
          Index lower = 0;  // rows of the instance on lower ranks
          for (Index r = static_cast<Index>(global) * size; r < first; ++r) lower += r + 1;
          CHECK(before.data<std::int64_t>()[g] == lower);
        }
        for (Index t = 0; t < tokens.count(); ++t)
          CHECK(map.first_instance() + map.instance_of(t) == (first + t / kLength) / size);
      });
    }
}

TEST_CASE("instances of a step: those with a valid token") {
  const std::vector<Index> valid_of_row{3, 0, 0, 0, 0, 0, 1, 5};  // two micro-batches of 4 rows
  CHECK(count_instances({ScopeKind::sequence, 0}, 4, valid_of_row) == 3);
  CHECK(count_instances({ScopeKind::group, 2}, 4, valid_of_row) == 2);
  CHECK(count_instances({ScopeKind::batch, 0}, 4, valid_of_row) == 2);
  CHECK(count_instances({ScopeKind::batch, 0}, 4, {0, 0, 0, 0, 0, 1, 0, 0}) == 1);
}

namespace {

struct Pair {
  Index token;
  std::int32_t expert;
  double score;
};

// Many ties, a column without candidates in some instances, tokens with several experts.
std::vector<Pair> all_pairs() {
  const Rng rng(7, "test/pairs");
  std::vector<Pair> pairs;
  for (Index t = 0; t < kRows * kLength; ++t)
    for (std::int32_t e = 0; e < kExperts; ++e)
      if (const auto i = static_cast<std::uint64_t>(t * kExperts + e); rng.below(i, 3) != 0)
        pairs.push_back({t, e, static_cast<double>(rng.below(i + 1000, 4)) / 4});
  return pairs;
}

std::vector<std::uint8_t> brute_force(const std::vector<Pair>& pairs,
                                      const std::vector<Index>& capacity, Index size) {
  std::vector<std::uint8_t> keep(pairs.size(), 0);
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const Index instance = pairs[i].token / (kLength * size);
    Index better = 0;
    for (const Pair& other : pairs)
      if (other.expert == pairs[i].expert && other.token / (kLength * size) == instance)
        better += other.score > pairs[i].score ||
                  (other.score == pairs[i].score && other.token < pairs[i].token);
    keep[i] = better < capacity[static_cast<std::size_t>(instance)] ? 1 : 0;
  }
  return keep;
}

}  // namespace

TEST_CASE("select_top_c over 1, 2 and 4 ranks equals brute force on the gathered pairs") {
  const std::vector<Pair> pairs = all_pairs();
  for (const ScopeSpec spec : kScopes)
    for (const Index room : {0, 1, 3, 7, 100}) {
      const Index size = spec.kind == ScopeKind::sequence ? 1
                         : spec.kind == ScopeKind::batch  ? kRows
                                                          : spec.group_size;
      std::vector<Index> capacity;  // different in every instance
      for (Index g = 0; g < kRows / size; ++g) capacity.push_back(room + g % 2);
      const std::vector<std::uint8_t> expected = brute_force(pairs, capacity, size);
      for (const auto& [ranks, uneven] : {std::pair{1, false}, {2, false}, {4, false}, {2, true}}) {
        if (uneven && spec.kind != ScopeKind::batch) continue;
        CAPTURE(ranks);
        CAPTURE(room);
        std::vector<std::uint8_t> found(pairs.size(), 2);
        over_ranks(ranks, uneven, [&](std::shared_ptr<Group> dp, Index first, Index rows) {
          const auto backend = Backend::cpu();
          const Tokens tokens = share_of(*backend, first, rows);
          const ScopeMap map(spec, tokens, dp);
          Candidates own;
          std::vector<std::size_t> index;
          for (std::size_t i = 0; i < pairs.size(); ++i) {
            const Index row = pairs[i].token / kLength;
            if (row < first || row >= first + rows) continue;
            own.token.push_back(pairs[i].token - first * kLength);
            own.expert.push_back(pairs[i].expert);
            own.score.push_back(pairs[i].score);
            index.push_back(i);
          }
          const auto begin = capacity.begin() + map.first_instance();
          const auto keep =
              select_top_c(own, {begin, begin + map.instances()}, kExperts, map, tokens);
          for (std::size_t i = 0; i < index.size(); ++i) found[index[i]] = keep[i];  // own elements
        });
        CHECK(found == expected);
      }
    }
}
