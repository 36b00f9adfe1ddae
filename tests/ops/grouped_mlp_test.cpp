// The fused expert network against its composition, and what it keeps in memory. T tokens, R rows,
// E experts, H hidden, F width.
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include <doctest/doctest.h>
#include "core/autograd/functions.h"
#include "tests/support/steady_memory.h"
#include "tests/support/tolerance.h"

using namespace moelab;
using moelab::testing::check_steady_memory;

namespace {

constexpr Index T = 50, H = 12, F = 20, E = 5;

Tensor random(Backend& backend, Shape shape, const char* stream) {
  const Tensor t = backend.empty(DType::f64, shape);
  const Rng rng(7, stream);
  for (Index i = 0; i < t.numel(); ++i)
    t.data<double>()[i] = rng.normal(static_cast<std::uint64_t>(i));
  return t;
}

// Relative to the largest element of b.
double largest_difference(const Tensor& a, const Tensor& b) {
  REQUIRE(a.shape() == b.shape());
  double most = 0, scale = 0;
  for (Index i = 0; i < a.numel(); ++i) {
    most = std::max(most, std::abs(a.data<double>()[i] - b.data<double>()[i]));
    scale = std::max(scale, std::abs(b.data<double>()[i]));
  }
  return most / scale;
}

struct Case {
  std::shared_ptr<std::vector<std::int32_t>> row_R = std::make_shared<std::vector<std::int32_t>>();
  std::shared_ptr<std::vector<Index>> offset = std::make_shared<std::vector<Index>>();
};

// Rows that repeat sources, a zero row, an expert (1) without rows.
Case make_case(Index rows) {
  Case c;
  for (Index r = 0; r < rows; ++r)
    c.row_R->push_back(r == 3 ? -1 : static_cast<std::int32_t>(r * 7 % T));
  *c.offset = {0, rows / 3, rows / 3, rows / 2, rows - 1, rows};
  return c;
}

struct Inputs {
  Tensor x, weight, up, down, dy;
};
struct Results {
  Tensor y, dx, dweight, dup, ddown;
};

template <class Forward>
Results run(Backend& backend, const Inputs& in, const Forward& forward) {
  Tape tape(backend);
  const Variable x = tape.input(in.x), w = tape.input(in.weight), up = tape.input(in.up),
                 down = tape.input(in.down);
  const Variable y = forward(tape, x, w, up, down);
  tape.seed(y, in.dy);
  tape.backward();
  return {y.value, tape.grad(x.slot()), tape.grad(w.slot()), tape.grad(up.slot()),
          tape.grad(down.slot())};
}

}  // namespace

TEST_CASE("grouped_mlp equals gather, grouped products and activation one by one") {
  const auto backend = Backend::cpu();
  const Index rows = 300;
  const Case c = make_case(rows);
  const Component<Activation> swiglu{"swiglu"};
  const auto activation = swiglu.make({});
  const Inputs in{random(*backend, {T, H}, "x"), random(*backend, {rows}, "w"),
                  random(*backend, {E, 2 * F, H}, "up"), random(*backend, {E, H, F}, "down"),
                  random(*backend, {rows, H}, "dy")};
  const Results fused = run(*backend, in, [&](Tape& tape, auto& x, auto& w, auto& up, auto& down) {
    return grouped_mlp(tape, x, c.row_R, c.offset, &w, {up, down, {}, {}, activation.get(), true});
  });
  // Without the weight inside: the composed form scales the upstream gradient by it instead.
  Inputs unweighted = in;
  unweighted.dy = backend->empty_like(in.dy);
  for (Index i = 0; i < rows * H; ++i)
    unweighted.dy.data<double>()[i] = in.dy.data<double>()[i] * in.weight.data<double>()[i / H];
  const Results composed =
      run(*backend, unweighted, [&](Tape& tape, auto& x, auto&, auto& up, auto& down) {
        const Variable h = grouped_linear(tape, gather_rows(tape, x, c.row_R), c.offset, up);
        return grouped_linear(tape, activate(tape, *activation, h), c.offset, down);
      });
  const Tensor y = backend->empty_like(fused.y), dweight = backend->zeros(DType::f64, {rows});
  for (Index i = 0; i < rows * H; ++i) {
    const double plain = composed.y.data<double>()[i];
    y.data<double>()[i] = plain * in.weight.data<double>()[i / H];
    dweight.data<double>()[i / H] += plain * in.dy.data<double>()[i];
  }
  const double allowed = tolerance(DType::f64).composed;
  CHECK(largest_difference(fused.y, y) < allowed);
  CHECK(largest_difference(fused.dweight, dweight) < allowed);
  CHECK(largest_difference(fused.dx, composed.dx) < allowed);
  CHECK(largest_difference(fused.dup, composed.dup) < allowed);
  CHECK(largest_difference(fused.ddown, composed.ddown) < allowed);
  for (Index i = 0; i < 2 * F * H; ++i) REQUIRE(fused.dup[1].data<double>()[i] == 0.0);
  for (Index i = 0; i < F * H; ++i) REQUIRE(fused.ddown[1].data<double>()[i] == 0.0);
}

TEST_CASE("grouped_mlp keeps the input, the up projection's output and the weights") {
  const auto backend = Backend::cpu();
  const Index rows = 300;
  const Case c = make_case(rows);
  const Component<Activation> swiglu{"swiglu"};
  const auto activation = swiglu.make({});
  Parameter up = make_parameter(*backend, DType::f32, "up", {E, 2 * F, H}, {}, true);
  Parameter down = make_parameter(*backend, DType::f32, "down", {E, H, F}, {}, true);
  initialize(up, 1);
  initialize(down, 1);
  const std::size_t before = backend->arena().counters().live_bytes;
  Tape tape(*backend);
  {
    const Variable x = tape.input(backend->zeros(DType::f32, {T, H}));
    const Variable w = tape.input(backend->zeros(DType::f32, {rows}));
    const Variable y =
        grouped_mlp(tape, x, c.row_R, c.offset, &w,
                    {tape.leaf(up), tape.leaf(down), {}, {}, activation.get(), true});
    tape.seed(y, 1.0);
  }
  const std::size_t kept = backend->arena().counters().live_bytes - before;
  const Index seed = rows * H;  // dy itself, which backward consumes
  CHECK(kept == static_cast<std::size_t>(4 * (T * H + rows * 2 * F + rows + seed)));
  tape.backward();
}

TEST_CASE("grouped_mlp asks the system for no memory once warm, whatever the row counts") {
  const auto backend = Backend::cpu();
  const Component<Activation> swiglu{"swiglu"};
  const auto activation = swiglu.make({});
  const Tensor x = backend->zeros(DType::f32, {T, H}),
               up = backend->zeros(DType::f32, {E, 2 * F, H}),
               down = backend->zeros(DType::f32, {E, H, F});
  const auto pass = [&](Index empty) {
    const Index rows = 300;
    Case c = make_case(rows);
    *c.offset = {0, empty, empty, 2 * empty, 3 * empty, rows};
    Tape tape(*backend);
    const Variable w = tape.input(backend->zeros(DType::f32, {rows}));
    const Variable y =
        grouped_mlp(tape, tape.input(x), c.row_R, c.offset, &w,
                    {tape.input(up), tape.input(down), {}, {}, activation.get(), true});
    tape.seed(y, 1.0);
    tape.backward();
  };
  check_steady_memory(
      *backend, [&] { pass(10); },
      [&] {
        for (Index empty = 0; empty <= 100; empty += 7) pass(empty);
      });
}
