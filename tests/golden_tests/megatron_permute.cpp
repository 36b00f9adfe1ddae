// Rows to experts and back against Megatron Core's permute, unpermute and sort_chunks_by_idxs: by
// every dispatcher, through the registry. T tokens, H hidden, E experts, R rows.
#include <algorithm>

#include "core/autograd/functions.h"
#include "core/lab/layer_bench.h"
#include "tests/golden_tests/values.h"
#include "tests/moe/moe_fixture.h"

namespace moelab::test {
namespace {

constexpr DType kDType = DType::f64;
constexpr double kTolerance = golden_tolerance(kDType);

// Every entry of a map [T, E] is a kept pair, a token's in the order of experts.
RoutingPlan plan_of(const Values& map, Index tokens, Index experts) {
  RoutingPlan plan;
  plan.tokens = tokens;
  plan.experts = experts;
  plan.offset_T1 = {0};
  for (Index t = 0; t < tokens; ++t) {
    for (Index e = 0; e < experts; ++e)
      if (map[static_cast<std::size_t>(t * experts + e)] != 0)
        plan.expert_P.push_back(static_cast<std::int32_t>(e));
    plan.offset_T1.push_back(plan.pairs());
  }
  plan.fate_P.assign(plan.expert_P.size(), PairFate::kept);
  plan.validate();
  return plan;
}

Values at_pairs(const RoutingPlan& plan, const Values& dense_TE) {
  Values out;
  for (Index t = 0; t < plan.tokens; ++t)
    for (Index p = plan.begin(t); p < plan.end(t); ++p)
      out.push_back(dense_TE[static_cast<std::size_t>(t * plan.experts +
                                                      plan.expert_P[static_cast<std::size_t>(p)])]);
  return out;
}

// y_R = x_R · w_R: what an expert does with its combine weight.
Variable weighted(Tape& tape, const Variable& x_RH, const Variable& w_R) {
  const Index rows = x_RH.value.size(0), width = x_RH.value.size(1);
  const Tensor x = x_RH.value, w = w_R.value, y = tape.backend().empty(kDType, {rows, width});
  for (Index i = 0; i < y.numel(); ++i)
    y.data<double>()[i] = x.data<double>()[i] * w.data<double>()[i / width];
  const Variable out = tape.output(y, {&x_RH, &w_R});
  tape.step("weighted", {out.slot()},
            [=, xs = x_RH.slot(), ws = w_R.slot(), ys = out.slot()](Tape& t) {
              const Tensor dy = t.grad(ys), dx = t.backend().zeros(kDType, xs.shape);
              const Tensor dw = t.backend().zeros(kDType, ws.shape);
              for (Index i = 0; i < dy.numel(); ++i) {
                dx.data<double>()[i] = dy.data<double>()[i] * w.data<double>()[i / width];
                dw.data<double>()[i / width] += dy.data<double>()[i] * x.data<double>()[i];
              }
              t.give(xs, dx);
              t.give(ws, dw);
            });
  return out;
}

class Permuting {
 public:
  Permuting(const GoldenCase& c, const std::string& dispatcher, RankContext& ranks)
      : c_(c),
        name_(dispatcher),
        backend_(*ranks.backend),
        tokens_(c.integer("num_tokens")),
        experts_(c.integer("num_experts")),
        width_(c.tensor("tokens").size(1)),
        plan_(plan_of(c.tensor("routing_map").values, tokens_, experts_)),
        meta_(make_tokens(backend_, 1, tokens_)),
        dispatcher_(
            component<Dispatcher>("type = \"" + dispatcher + "\"").make({ranks, experts_})) {}

  Index rows() const { return plan_.pairs(); }

  // `rows`: how many of Megatron's rows to compare, for it may cut some off or add some.
  void permute(Comparison& to, Index rows) {
    Tape tape(backend_);
    const Dispatched sent = dispatch(tape);
    const Variable x_RH = gather_rows(tape, sent.rows.source_SH, sent.rows.row_R);
    to.same(name("rows"), first(doubles(x_RH.value), rows * width_),
            first(c_.tensor("permuted_tokens").values, rows * width_), kTolerance);
    to.same(name("weights"), first(doubles(sent.weight_R.value), rows),
            first(c_.tensor("permuted_probs").values, rows), kTolerance);
    const Values& token_R = c_.tensor("sorted_indices").values;
    if (sent.rows.source_SH.value.raw() == x_TH_.value.raw())
      to.exact(name("tokens of rows"),
               first(Values(sent.rows.row_R->begin(), sent.rows.row_R->end()), rows),
               first(token_R, rows));
    const Values& cotangent = c_.tensor("cotangent_permuted_tokens").values;
    if (rows != static_cast<Index>(token_R.size()) || rows != this->rows()) return;
    tape.seed(x_RH, reals(backend_, kDType, {rows, width_}, cotangent));
    tape.seed(sent.weight_R,
              reals(backend_, kDType, {rows}, c_.tensor("cotangent_permuted_probs").values));
    tape.backward();
    to.same(name("tokens' gradient"), doubles(tape.grad(x_TH_.slot())), c_.tensor("grad_tokens"),
            kTolerance);
    to.same(name("weights' gradient"), doubles(tape.grad(weight_P_.slot())),
            at_pairs(plan_, c_.tensor("grad_probs").values), kTolerance);
  }

  void unpermute(Comparison& to, bool with_probs) {
    const std::string suffix = with_probs ? "_with_probs" : "";
    Tape tape(backend_);
    const Dispatched sent = dispatch(tape);
    const Variable rows_RH =
        tape.input(reals(backend_, kDType, {rows(), width_}, c_.tensor("expert_rows").values));
    const Variable y_RH = with_probs ? weighted(tape, rows_RH, sent.weight_R) : rows_RH;
    const Variable y_TH = dispatcher_->combine(tape, y_RH, sent);
    to.same(name("restored" + suffix), doubles(y_TH.value),
            c_.tensor(with_probs ? "restored_with_probs" : "restored"), kTolerance);
    tape.seed(y_TH,
              reals(backend_, kDType, {tokens_, width_}, c_.tensor("cotangent_restored").values));
    tape.backward();
    to.same(name("rows' gradient" + suffix), doubles(tape.grad(rows_RH.slot())),
            c_.tensor("grad_expert_rows" + suffix), kTolerance);
    if (!with_probs) return;
    to.same(name("weights' gradient" + suffix), doubles(tape.grad(weight_P_.slot())),
            at_pairs(plan_, c_.tensor("grad_probs_with_probs").values), kTolerance);
  }

 private:
  Dispatched dispatch(Tape& tape) {
    x_TH_ = tape.input(reals(backend_, kDType, {tokens_, width_}, c_.tensor("tokens").values));
    weight_P_ =
        tape.input(reals(backend_, kDType, {rows()}, at_pairs(plan_, c_.tensor("probs").values)));
    return dispatcher_->dispatch(tape, x_TH_, plan_, weight_P_, meta_);
  }
  std::string name(const std::string& what) const { return name_ + ": " + what; }
  static Values first(const Values& v, Index count) {
    return {v.begin(), v.begin() + std::min(count, static_cast<Index>(v.size()))};
  }

  const GoldenCase& c_;
  std::string name_;
  Backend& backend_;
  Index tokens_, experts_, width_;
  RoutingPlan plan_;
  Tokens meta_;
  std::unique_ptr<Dispatcher> dispatcher_;
  Variable x_TH_, weight_P_;
};

Outcome permute(const GoldenCase& c) {
  // What follows from the map and the tokens' shape.
  c.ignore({"topk", "capacity", "drop_and_pad", "restore_shape", "fused"});
  const Index theirs = c.integer("num_out_tokens");
  Comparison to;
  Outcome first_rows;
  with_ranks(1, 1, [&](RankContext& ranks) {
    for (const std::string dispatcher : {"local", "allgather", "alltoall"}) {
      Permuting run(c, dispatcher, ranks);
      if (run.rows() != theirs) {
        Comparison both;
        run.permute(both, std::min(run.rows(), theirs));
        if (both.outcome().kind != Outcome::Kind::passed) first_rows = both.outcome();
        to.exact(dispatcher + ": number of rows", static_cast<double>(run.rows()),
                 static_cast<double>(theirs));
        continue;
      }
      run.permute(to, theirs);
      run.unpermute(to, false);
      if (c.has("restored_with_probs")) run.unpermute(to, true);
    }
  });
  if (first_rows.kind != Outcome::Kind::passed)
    return Outcome::failed("in the rows that both have: " + first_rows.text);
  if (to.outcome().kind == Outcome::Kind::differs)
    c.ignore({"grad_*", "cotangent_*", "restored*", "expert_rows"});
  return to.outcome();
}

// [0, n, 2n, …, 1, n + 1, …]: from (source rank, expert) to (expert, source rank) order; n = the
// experts. 0 if the order is another.
Index experts_of(const Values& order) {
  const auto chunks = static_cast<Index>(order.size());
  for (Index experts = 1; experts <= chunks; ++experts) {
    if (chunks % experts != 0) continue;
    const Index ranks = chunks / experts;
    bool same = true;
    for (Index i = 0; i < chunks; ++i) {
      const Index from = i % ranks * experts + i / ranks;
      same = same && order[static_cast<std::size_t>(i)] == static_cast<double>(from);
    }
    if (same) return experts;
  }
  return 0;
}

// The chunks are what rank 0 gets from each rank for each of its experts.
Outcome sort_chunks(const GoldenCase& c) {
  c.ignore({"fused"});
  const Values& sizes = c.tensor("split_sizes").values;
  const Index local = experts_of(c.tensor("sorted_idxs").values);
  if (local == 0) return Outcome::failed("does not know this order of chunks");
  const Index ranks = static_cast<Index>(sizes.size()) / local, experts = ranks * local;
  const Index width = c.tensor("input").size(1);
  Values rows_got, weights_got;
  with_ranks(static_cast<int>(ranks), static_cast<int>(ranks), [&](RankContext& rank) {
    const Index me = rank.ep->rank();
    const auto before = [&](Index chunk) {
      return static_cast<Index>(sum({sizes.begin(), sizes.begin() + chunk}));
    };
    const Index begin = before(me * local), end = before((me + 1) * local);
    RoutingPlan plan = plan_of(Values(static_cast<std::size_t>((end - begin) * experts), 0.0),
                               end - begin, experts);
    plan.offset_T1 = {0};
    for (Index e = 0; e < local; ++e)
      for (Index i = before(me * local + e); i < before(me * local + e + 1); ++i) {
        plan.expert_P.push_back(static_cast<std::int32_t>(e));
        plan.offset_T1.push_back(plan.pairs());
      }
    plan.fate_P.assign(plan.expert_P.size(), PairFate::kept);
    const auto own = [&](const std::string& name, Index columns) {
      const Values& v = c.tensor(name).values;
      return reals(*rank.backend, kDType,
                   columns == 0 ? Shape{end - begin} : Shape{end - begin, columns},
                   {v.begin() + begin * std::max<Index>(columns, 1),
                    v.begin() + end * std::max<Index>(columns, 1)});
    };
    const auto dispatcher = component<Dispatcher>("type = \"alltoall\"").make({rank, experts});
    Tape tape(*rank.backend, Tape::Mode::forward);
    const Dispatched sent = dispatcher->dispatch(tape, tape.constant(own("input", width)), plan,
                                                 tape.constant(own("probs", 0)),
                                                 make_tokens(*rank.backend, 1, end - begin));
    if (me != 0) return;
    rows_got = doubles(gather_rows(tape, sent.rows.source_SH, sent.rows.row_R).value);
    weights_got = doubles(sent.weight_R.value);
  });
  Comparison to;
  to.same("rows", rows_got, c.tensor("output"), kTolerance);
  to.same("weights", weights_got, c.tensor("output_probs"), kTolerance);
  return to.outcome();
}

Outcome run_case(const GoldenCase& c) {
  c.ignore({"compute_dtype"});
  const std::string& function = c.text("function");
  if (function == "permute, unpermute") return permute(c);
  if (function == "sort_chunks_by_idxs") return sort_chunks(c);
  if (function == "pad_routing_map")
    return Outcome::not_yet("experts' rows aligned to a multiple, for low precision");
  return Outcome::failed("does not know the function " + function);
}

const RegisterSuite registered{"megatron_permute", run_case};

}  // namespace
}  // namespace moelab::test
