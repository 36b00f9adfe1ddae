#include "core/autograd/tape.h"

#include <doctest/doctest.h>

#include <limits>

#include "tests/autograd/square.h"

using namespace moelab;
using namespace moelab::testing;

TEST_CASE("the first gradient is written, later ones are added") {
  const auto backend = Backend::cpu();
  Tape tape(*backend);
  const Variable x = tape.input(vector_of(*backend, {1, 2}));
  const Variable a = square(tape, x), b = square(tape, x, 10);
  tape.seed(a, 1.0);
  tape.seed(b, vector_of(*backend, {1, 0.5}));
  tape.seed(b, 1.0);
  tape.backward();
  CHECK(values_of(tape.grad(x.slot())) == std::vector<double>{2 + 40, 4 + 60});
}

TEST_CASE("a parameter's gradient outlives its tape and accumulates until it is cleared") {
  const auto backend = Backend::cpu();
  Parameter p = make_parameter(*backend, DType::f64, "p", {2}, {}, true);
  p.value = vector_of(*backend, {1, 3});
  const auto pass = [&] {
    Tape tape(*backend);
    const Variable w = tape.leaf(p);
    CHECK(tape.leaf(p).id == w.id);
    const Variable y = square(tape, w);
    tape.seed(y, 1.0);
    tape.backward();
  };
  CHECK_FALSE(p.grad);
  pass();
  CHECK(values_of(p.grad) == std::vector<double>{2, 6});
  pass();
  CHECK(values_of(p.grad) == std::vector<double>{4, 12});
  p.grad_written = false;
  p.grad.data<double>()[0] = std::numeric_limits<double>::quiet_NaN();  // must not be read
  pass();
  CHECK(values_of(p.grad) == std::vector<double>{2, 6});
}

TEST_CASE("steps that no gradient reaches are skipped, and write nothing") {
  const auto backend = Backend::cpu();
  Tape tape(*backend);
  const Variable x = tape.input(vector_of(*backend, {1})), z = tape.input(x.value);
  const Variable y = square(tape, x);
  const Variable unused = square(tape, z);
  int backwards = 0;
  tape.observe([&](const char*, bool backward, double) { backwards += backward; });
  tape.seed(y, 1.0);
  tape.backward();
  CHECK(backwards == 1);
  CHECK(tape.grad(x.slot()).defined());
  CHECK_FALSE(tape.grad(z.slot()).defined());
}

TEST_CASE("no gradient is recorded for constants, nor on a forward tape") {
  const auto backend = Backend::cpu();
  Tape tape(*backend);
  CHECK_FALSE(square(tape, tape.constant(vector_of(*backend, {1}))).needs_grad());
  CHECK(tape.steps() == 0);
  Tape forward(*backend, Tape::Mode::forward);
  Parameter p = make_parameter(*backend, DType::f64, "p", {1}, {}, true);
  initialize(p, 1);
  CHECK_FALSE(square(forward, forward.leaf(p)).needs_grad());
  CHECK(forward.steps() == 0);
}

TEST_CASE("backward frees saved tensors and consumed gradients as it goes") {
  const auto backend = Backend::cpu();
  const std::size_t start = backend->arena().counters().live_bytes;
  constexpr Index kSize = 1000;
  constexpr std::size_t kBytes = kSize * sizeof(double);
  {
    Tape tape(*backend);
    Variable x = tape.input(backend->zeros(DType::f64, {kSize}));
    const GradSlot first = x.slot();
    Variable y = x;
    for (int i = 0; i < 10; ++i) y = square(tape, y);
    x = {};
    // Each step saves its input; the last output is alive through y.
    CHECK(backend->arena().counters().live_bytes - start == 11 * kBytes);
    tape.seed(y, 1.0);
    y = {};
    backend->arena().reset_peak();
    tape.backward();
    // At most one gradient more than its consumer is alive beside what is still saved.
    CHECK(backend->arena().counters().peak_bytes - start <= 12 * kBytes);
    CHECK(backend->arena().counters().live_bytes - start == kBytes);  // the input's gradient
    CHECK(tape.grad(first).defined());
  }
  CHECK(backend->arena().counters().live_bytes == start);
}

TEST_CASE("give adopts a gradient where none is, and adds it where one is") {
  const auto backend = Backend::cpu();
  Tape tape(*backend);
  const Variable x = tape.input(vector_of(*backend, {1, 2}));
  const Tensor g = vector_of(*backend, {3, 4});
  tape.give(x.slot(), g);
  CHECK(tape.grad(x.slot()).raw() == g.raw());
  tape.give(x.slot(), vector_of(*backend, {10, 20}));
  CHECK(values_of(tape.grad(x.slot())) == std::vector<double>{13, 24});
}

TEST_CASE("the observer hears of every forward and backward once") {
  const auto backend = Backend::cpu();
  Tape tape(*backend);
  int forwards = 0, backwards = 0;
  tape.observe([&](const char* op, bool backward, double seconds) {
    CHECK(std::string(op) == "square");
    CHECK(seconds >= 0);
    ++(backward ? backwards : forwards);
  });
  const Variable y = square(tape, square(tape, tape.input(vector_of(*backend, {1}))));
  tape.seed(y, 1.0);
  tape.backward();
  CHECK(forwards == 2);
  CHECK(backwards == 2);
}
