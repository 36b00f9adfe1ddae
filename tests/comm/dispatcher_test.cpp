// Every dispatcher against `local` on one rank, forward and backward, with everything that a plan
// may hold. T tokens of the whole batch, H hidden, E experts, k slots a token.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <numeric>
#include <string>
#include <vector>

#include "core/moe/dispatcher.h"
#include "dispatchers/permutation.h"
#include "tests/comm/world_conformance.h"
#include "tests/support/tolerance.h"

using namespace moelab;
using namespace moelab::testing;

namespace {

constexpr Index kTokens = 24, kHidden = 5, kExperts = 8, kSlots = 3;
constexpr double kFillerValue = 1e6;  // would be seen in any sum it got into

enum class Plan { plain, dropped_and_padding, fillers, all_on_one, ragged, first_rank_empty };

// The plan of tokens [begin, end) of the batch: the same pairs however the batch is cut.
RoutingPlan make_plan(Plan kind, Index begin, Index end) {
  const Rng rng(7, "plan");
  RoutingPlan plan;
  plan.tokens = end - begin;
  plan.experts = kExperts;
  if (kind == Plan::ragged)
    plan.offset_T1.push_back(0);
  else
    plan.uniform_k = kSlots;
  for (Index t = begin; t < end; ++t) {
    const auto at = static_cast<std::uint64_t>(t);
    const Index slots =
        kind == Plan::ragged ? static_cast<Index>(rng.below(at, kSlots + 1)) : kSlots;
    const auto first = static_cast<Index>(rng.below(1000 + at, kExperts));
    for (Index j = 0; j < slots; ++j) {
      Index expert = (first + j * (1 + t % 2)) % (kind == Plan::plain ? kExperts : kExperts - 1);
      PairFate fate = PairFate::kept;
      if (kind == Plan::all_on_one) {
        expert = 5;
        if (j > 0) fate = PairFate::absent;
      }
      if (kind == Plan::dropped_and_padding) {
        if ((t + j) % 4 == 1 || t == 6) fate = PairFate::capacity;
        if (t % 7 == 3) fate = PairFate::absent;
      }
      plan.expert_P.push_back(fate == PairFate::absent ? -1 : static_cast<std::int32_t>(expert));
      plan.fate_P.push_back(fate);
    }
    if (kind == Plan::ragged) plan.offset_T1.push_back(plan.pairs());
  }
  if (kind == Plan::fillers)
    for (Index e = 0; e < kExperts; ++e) plan.filler_E.push_back(e % 3);
  return plan;
}

double value(std::string_view stream, Index i) {
  return Rng(11, stream).normal(static_cast<std::uint64_t>(i));
}
Tensor drawn(const Backend& backend, std::string_view stream, Shape shape, Index first) {
  const Tensor t = backend.empty(DType::f64, shape);
  for (Index i = 0; i < t.numel(); ++i) t.data<double>()[i] = value(stream, first + i);
  return t;
}

// Stand-in for experts: y = w · (a_e x + x²) with a_e = 1 + the expert's global id. Filler rows
// give a value that nobody may read.
Variable test_experts(Tape& tape, const RowView& rows, const Variable& weight_R,
                      Index first_expert) {
  std::vector<double> a_R;
  for (std::size_t e = 0; e + 1 < rows.offset_e1->size(); ++e)
    a_R.resize(static_cast<std::size_t>((*rows.offset_e1)[e + 1]),
               1.0 + static_cast<double>(first_expert) + static_cast<double>(e));
  const Tensor y = tape.backend().empty(DType::f64, {rows.rows(), kHidden});
  const Tensor x = rows.source_SH.value, w = weight_R.value;
  for (Index r = 0; r < rows.rows(); ++r) {
    const Index s = (*rows.row_R)[static_cast<std::size_t>(r)];
    if (s < 0) expect(w.data<double>()[r] == 0, "a filler weighs nothing");
    for (Index h = 0; h < kHidden; ++h) {
      const double xi = s < 0 ? 0 : x[s].data<double>()[h];
      y[r].data<double>()[h] =
          s < 0 ? kFillerValue
                : w.data<double>()[r] * (a_R[static_cast<std::size_t>(r)] * xi + xi * xi);
    }
  }
  const Variable out = tape.output(y, {&rows.source_SH, &weight_R});
  tape.step("test_experts", {out.slot()},
            [rows = rows.row_R, a_R, x, w, xs = rows.source_SH.slot(), ws = weight_R.slot(),
             ys = out.slot()](Tape& t) {
              const Tensor dy = t.grad(ys), dx = t.backend().zeros(DType::f64, xs.shape);
              const Tensor dw = t.backend().zeros(DType::f64, ws.shape);
              for (std::size_t r = 0; r < rows->size(); ++r) {
                if ((*rows)[r] < 0) continue;
                const auto row = static_cast<Index>(r);
                for (Index h = 0; h < kHidden; ++h) {
                  const double xi = x[(*rows)[r]].data<double>()[h], g = dy[row].data<double>()[h];
                  dx[(*rows)[r]].data<double>()[h] += g * w.data<double>()[row] * (a_R[r] + 2 * xi);
                  dw.data<double>()[row] += g * (a_R[r] * xi + xi * xi);
                }
              }
              t.give(xs, dx);
              t.give(ws, dw);
            });
  return out;
}

struct Outcome {
  std::vector<double> y, dx, dw;                 // of the whole batch
  std::vector<std::vector<double>> expert_rows;  // first element of each expert's rows, in order
  std::vector<std::string> texts;
  Index calls = 0;
};

std::pair<Index, Index> share(Plan kind, int rank, int ranks) {
  if (kind == Plan::first_rank_empty && ranks > 1) {  // rank 0 has none, the next has two shares
    const Index cut[] = {0, 2, 3, 4};
    const Index begin = rank == 0 ? 0 : (rank == 1 ? 0 : cut[rank - 1]);
    const Index end = rank == 0 ? 0 : (ranks == 2 ? 2 : cut[rank]);
    const Index unit = kTokens / (ranks == 2 ? 2 : 4);
    return {begin * unit, end * unit};
  }
  return {kTokens * rank / ranks, kTokens * (rank + 1) / ranks};
}

void run_rank(Rank& rank, const std::string& name, int ep, Plan kind, bool again, Outcome& out,
              std::mutex& guard) {
  const auto backend = Backend::cpu();
  RankContext context =
      make_rank_context(rank, Topology({.ranks = rank.size(), .ep = ep}), backend, true);
  const auto dispatcher = Component<Dispatcher>(name).make({context, kExperts});
  const auto [begin, end] = share(kind, rank.rank(), rank.size());
  const RoutingPlan plan = make_plan(kind, begin, end);
  Index first_slot = make_plan(kind, 0, begin).pairs();
  Tokens tokens;
  tokens.rows = end - begin;
  tokens.length = 1;
  tokens.first_row = begin;
  tokens.rows_global = kTokens;
  const Index first_expert = context.ep->rank() * kExperts / ep;

  Tape tape(*backend);
  const Variable x = tape.input(drawn(*backend, "x", {end - begin, kHidden}, begin * kHidden));
  const Variable w = tape.input(drawn(*backend, "w", {plan.pairs()}, first_slot));
  Dispatched sent;
  const Segment layer = [&](Tape& t, const std::vector<Variable>& in) -> std::vector<Variable> {
    sent = dispatcher->dispatch(t, in[0], plan, in[1], tokens);
    return {dispatcher->combine(t, test_experts(t, sent.rows, sent.weight_R, first_expert), sent)};
  };
  const Variable y = (again ? recompute(tape, {x, w}, layer) : layer(tape, {x, w})).front();
  tape.seed(y, drawn(*backend, "dy", {end - begin, kHidden}, begin * kHidden));
  tape.backward();

  const std::lock_guard lock(guard);
  const auto put = [](const Tensor& from, std::vector<double>& to, Index first) {
    std::copy_n(from.data<double>(), from.numel(), to.begin() + first);
  };
  put(y.value, out.y, begin * kHidden);
  if (const Tensor dx = tape.grad(x.slot())) put(dx, out.dx, begin * kHidden);
  if (const Tensor dw = tape.grad(w.slot())) put(dw, out.dw, first_slot);
  for (Index e = 0; e < kExperts / ep; ++e) {
    auto& rows = out.expert_rows[static_cast<std::size_t>(first_expert + e)];
    for (Index r = (*sent.rows.offset_e1)[static_cast<std::size_t>(e)];
         r < (*sent.rows.offset_e1)[static_cast<std::size_t>(e) + 1]; ++r)
      if (const Index s = (*sent.rows.row_R)[static_cast<std::size_t>(r)]; s >= 0)
        rows.push_back(sent.rows.source_SH.value[s].data<double>()[0]);
  }
  out.texts.push_back(dispatcher->describe(sent));
  out.calls += context.ep->traffic().calls;
}

Outcome run(const std::string& name, int ranks, int ep, Plan kind, bool again = false) {
  Outcome out;
  out.y.assign(kTokens * kHidden, NAN);
  out.dx = out.y;
  out.dw.assign(static_cast<std::size_t>(make_plan(kind, 0, kTokens).pairs()), NAN);
  out.expert_rows.resize(kExperts);
  std::mutex guard;
  const auto world =
      Component<World>("inproc").make({.ranks = ranks, .timeout = std::chrono::seconds(60)});
  world->run([&](Rank& rank) { run_rank(rank, name, ep, kind, again, out, guard); });
  return out;
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double most = a.size() == b.size() ? 0 : INFINITY;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    most = std::max(most, std::isfinite(a[i]) ? std::abs(a[i] - b[i]) : INFINITY);
  return most;
}

}  // namespace

TEST_CASE("every dispatcher gives local's results on every layout") {
  struct Case {
    std::string name;
    int ranks, ep;
  };
  const Case cases[] = {{"auto", 1, 1},      {"local", 2, 1},     {"alltoall", 1, 1},
                        {"allgather", 1, 1}, {"alltoall", 2, 2},  {"alltoall", 4, 4},
                        {"alltoall", 4, 2},  {"allgather", 2, 2}, {"allgather", 4, 2},
                        {"allgather", 4, 4}, {"auto", 4, 2}};
  for (const Plan kind : {Plan::plain, Plan::dropped_and_padding, Plan::fillers, Plan::all_on_one,
                          Plan::ragged, Plan::first_rank_empty}) {
    const Outcome local = run("local", 1, 1, kind);
    for (const auto& [name, ranks, ep] : cases) {
      CAPTURE(name);
      CAPTURE(ranks);
      CAPTURE(ep);
      CAPTURE(static_cast<int>(kind));
      const Outcome other = run(name, ranks, ep, kind);
      CHECK(other.y == local.y);
      CHECK(largest_difference(other.dx, local.dx) < tolerance(DType::f64).exact);
      CHECK(other.dw == local.dw);
      if (ranks == ep) CHECK(other.expert_rows == local.expert_rows);
    }
  }
}

TEST_CASE("tokens without kept pairs come out exactly zero") {
  for (const char* name : {"local", "alltoall", "allgather"}) {
    const Outcome out =
        run(name, 2, name == std::string("local") ? 1 : 2, Plan::dropped_and_padding);
    for (const Index t : {3, 6, 10})
      for (Index h = 0; h < kHidden; ++h) {
        CHECK(out.y[static_cast<std::size_t>(t * kHidden + h)] == 0);
        CHECK(out.dx[static_cast<std::size_t>(t * kHidden + h)] == 0);
      }
    CHECK(out.y[0] != 0);
  }
}

TEST_CASE("a recomputed segment gives the same bits and repeats no collective") {
  for (const char* name : {"alltoall", "allgather"}) {
    const Outcome once = run(name, 4, 2, Plan::fillers),
                  again = run(name, 4, 2, Plan::fillers, true);
    CHECK(once.y == again.y);
    CHECK(once.dx == again.dx);
    CHECK(once.dw == again.dw);
    CHECK(once.calls == again.calls);
  }
}

TEST_CASE("two ranks, four experts, by hand: splits and rows by expert") {
  const std::vector<std::vector<Index>> counts{{3, 0, 2, 1}, {1, 2, 0, 3}};
  const auto world = Component<World>("inproc").make({.ranks = 2});
  CHECK_NOTHROW(world->run([&](Rank& rank) {
    const auto backend = Backend::cpu();
    RankContext context = make_rank_context(rank, Topology({.ranks = 2, .ep = 2}), backend, true);
    const auto me = static_cast<std::size_t>(rank.rank());
    RoutingPlan plan;
    plan.tokens = 6;
    plan.experts = 4;
    plan.uniform_k = 1;
    for (std::size_t e = 0; e < 4; ++e)
      plan.expert_P.resize(plan.expert_P.size() + static_cast<std::size_t>(counts[me][e]),
                           static_cast<std::int32_t>(e));
    plan.fate_P.assign(6, PairFate::kept);
    Tape tape(*backend, Tape::Mode::forward);
    const Variable x = tape.constant(backend->zeros(DType::f32, {6, 4}));
    const Variable w = tape.constant(backend->zeros(DType::f32, {6}));
    const auto dispatcher = Component<Dispatcher>("alltoall").make({context, 4});
    const Dispatched sent = dispatcher->dispatch(tape, x, plan, w, {});
    expect(*sent.rows.offset_e1 ==
               (rank.rank() == 0 ? std::vector<Index>{0, 4, 6} : std::vector<Index>{0, 2, 6}),
           "rows by local expert");
    const std::string text = dispatcher->describe(sent);
    expect(text.find("3 (48)") != std::string::npos, "three rows each way: " + text);
  }));
}

TEST_CASE("arrivals by (source, expert) become rows by (expert, source): chunks 0, 2, 1, 3") {
  const std::vector<Index> arrivals{2, 1, 1, 2}, fillers{1, 0};
  const Arrival arrival = arrange(arrivals, fillers);
  CHECK(*arrival.arrival_R == std::vector<std::int32_t>{0, 1, 3, -1, 2, 4, 5});
  CHECK(*arrival.offset_e1 == std::vector<Index>{0, 4, 7});
  CHECK(*arrival.row_A == std::vector<std::int32_t>{0, 1, 4, 2, 5, 6});
}

TEST_CASE("local refuses several expert ranks in a recipe") {
  Report report;
  Component<Dispatcher>("local").check({.ep = 2, .experts = 8}, report);
  REQUIRE(report.problems().size() == 1);
  CHECK(report.problems()[0].text.find("use alltoall or allgather") != std::string::npos);
  Report fine;
  Component<Dispatcher>("local").check({.ep = 1, .experts = 8}, fine);
  CHECK(fine.problems().empty());
}
