#include <doctest/doctest.h>

#include "core/autograd/tape.h"
#include "tests/autograd/square.h"

using namespace moelab;
using namespace moelab::testing;

namespace {

struct Result {
  std::vector<double> loss, dx, dw;
  std::size_t steps = 0;
};

// x is used outside the segment (before and after) and twice inside, w inside and outside: the
// order of all additions matters for the last bit.
Result run(bool recomputed, bool nested) {
  const auto backend = Backend::cpu();
  Parameter w = make_parameter(*backend, DType::f64, "w", {3}, {}, true);
  initialize(w, 7);
  Tape tape(*backend);
  const Variable x = tape.input(vector_of(*backend, {0.1, 0.2, 0.3}));
  const Variable before = square(tape, x, 0.7);
  const Segment inner = [&w](Tape& t, const std::vector<Variable>& in) {
    const Variable y = square(t, square(t, in[0], 1.1), 1.3);
    return std::vector<Variable>{square(t, y, 0.9), square(t, in[0], 1.7), square(t, t.leaf(w)),
                                 square(t, in[1], 0.3)};
  };
  const Segment segment = [&](Tape& t, const std::vector<Variable>& in) {
    auto out = nested ? recompute(t, in, inner) : inner(t, in);
    out.push_back(square(t, in[0], 0.2));
    return out;
  };
  const std::vector<Variable> inputs{x, before};
  const auto outputs = recomputed ? recompute(tape, inputs, segment) : segment(tape, inputs);
  const Variable after = square(tape, x, 3.1), also = square(tape, tape.leaf(w), 0.77);
  Result r;
  r.steps = tape.steps();
  for (const Variable& y : outputs) {
    r.loss.insert(r.loss.end(), y.value.data<double>(), y.value.data<double>() + 3);
    tape.seed(y, 0.37);
  }
  tape.seed(after, 1.9);
  tape.seed(also, 0.11);
  tape.backward();
  r.dx = values_of(tape.grad(x.slot()));
  r.dw = values_of(w.grad);
  return r;
}

}  // namespace

TEST_CASE("recomputing a segment changes no bit of values and gradients, and keeps fewer steps") {
  const Result plain = run(false, false);
  for (const bool nested : {false, true}) {
    const Result again = run(true, nested);
    CHECK(again.loss == plain.loss);
    CHECK(again.dx == plain.dx);
    CHECK(again.dw == plain.dw);
    CHECK(again.steps == 4);
    CHECK(plain.steps == 10);
  }
}

TEST_CASE("what is remembered is made once, in order, also in nested segments") {
  const auto backend = Backend::cpu();
  Tape tape(*backend);
  const Variable x = tape.input(vector_of(*backend, {2}));
  int made = 0, runs = 0, replays = 0;
  const Segment inner = [&](Tape& t, const std::vector<Variable>& in) {
    const int a = t.remember([&] { return ++made; });
    const double b = t.remember([&] { return 10.0 * ++made; });
    ++runs;
    replays += t.replaying();
    return std::vector<Variable>{square(t, in[0], a + b)};
  };
  const Segment outer = [&](Tape& t, const std::vector<Variable>& in) {
    const auto y = recompute(t, in, inner);
    const double c = t.remember([&] { return 100.0 * ++made; });
    return std::vector<Variable>{square(t, y[0], c)};
  };
  const Variable y = recompute(tape, {x}, outer)[0];
  tape.seed(y, 1.0);
  tape.backward();
  CHECK(made == 3);
  CHECK(runs == 3);     // outer's first pass, outer's second, inner's second
  CHECK(replays == 2);  // only the first may record
  // y = 300·((1 + 20)·x²)², dy/dx = 1200·441·x³
  CHECK(y.value.data<double>()[0] == 300.0 * 441 * 16);
  CHECK(values_of(tape.grad(x.slot())) == std::vector<double>{1200.0 * 441 * 8});
}

TEST_CASE("a recomputed segment keeps its inputs only") {
  const auto backend = Backend::cpu();
  Tape tape(*backend);
  const Variable x = tape.input(backend->zeros(DType::f64, {1000}));
  const auto live = [&] { return backend->arena().counters().live_bytes / 8000; };
  const Segment segment = [](Tape& t, const std::vector<Variable>& in) {
    Variable y = in[0];
    for (int i = 0; i < 5; ++i) y = square(t, y);
    return std::vector<Variable>{y};
  };
  const Variable y = recompute(tape, {x}, segment)[0];
  CHECK(live() == 2);
  const Variable z = segment(tape, {x})[0];
  CHECK(live() == 7);
}

TEST_CASE("on a forward tape a segment simply runs") {
  const auto backend = Backend::cpu();
  Tape tape(*backend, Tape::Mode::forward);
  const Variable x = tape.constant(vector_of(*backend, {2}));
  const auto y = recompute(tape, {x}, [](Tape& t, const std::vector<Variable>& in) {
    CHECK_FALSE(t.replaying());
    return std::vector<Variable>{square(t, in[0])};
  });
  CHECK(values_of(y[0].value) == std::vector<double>{4});
}
