// What the op cases cannot see: agreement with the definitions.
#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "core/autograd/functions.h"
#include "tests/support/tolerance.h"

using namespace moelab;

namespace {

Tensor random(const Backend& backend, Shape shape, std::uint64_t salt) {
  const Tensor t = backend.empty(DType::f64, shape);
  const Rng rng(1, "simple_ops", salt);
  for (Index i = 0; i < t.numel(); ++i)
    t.data<double>()[i] = rng.normal(static_cast<std::uint64_t>(i));
  return t;
}
template <class T>
Tensor list(const Backend& backend, DType dtype, const std::vector<T>& values) {
  const Tensor t = backend.empty(dtype, {static_cast<Index>(values.size())});
  std::copy(values.begin(), values.end(), t.data<T>());
  return t;
}

}  // namespace

TEST_CASE("dropout draws global indices, so a part of the rows has the mask of the whole") {
  const auto backend = Backend::cpu();
  Tape tape(*backend);
  constexpr Index kRows = 200, kWidth = 50;
  const Variable x = tape.constant(random(*backend, {kRows, kWidth}, 1));
  const Rng rng(5, "mask", 3);
  const Tensor y = dropout(tape, x, 0.25, rng, 7).value;
  int dropped = 0;
  for (Index i = 0; i < kRows * kWidth; ++i) {
    const bool keep = rng.uniform(static_cast<std::uint64_t>(7 * kWidth + i)) >= 0.25;
    CHECK(y.data<double>()[i] == (keep ? x.value.data<double>()[i] * (1 / 0.75) : 0.0));
    dropped += !keep;
  }
  CHECK(std::abs(dropped - 2500) < 4 * std::sqrt(kRows * kWidth * 0.25 * 0.75));
  const Tensor part = dropout(tape, tape.constant(x.value.rows(60, 9)), 0.25, rng, 67).value;
  for (Index i = 0; i < 9 * kWidth; ++i)
    CHECK(part.data<double>()[i] == y.data<double>()[60 * kWidth + i]);
  CHECK(dropout(tape, x, 0, rng, 0).value.raw() == x.value.raw());
}

TEST_CASE(
    "cross-entropy equals its definition, ignores negative targets and survives huge logits") {
  const auto backend = Backend::cpu();
  Tape tape(*backend);
  const Tensor logits = random(*backend, {4, 5}, 2);
  logits[2].data<double>()[1] = 1e4;  // e^x would overflow
  const Tensor target = list<std::int32_t>(*backend, DType::i32, {3, -1, 0, 4});
  const Tensor rows = cross_entropy_rows(*backend, logits, target);
  double total = 0;
  for (Index t = 0; t < 4; ++t) {
    const double* x = logits[t].data<double>();
    const std::int32_t id = target.data<std::int32_t>()[t];
    double sum = 0, most = -1e300;
    for (int i = 0; i < 5; ++i) most = std::max(most, x[i]);
    for (int i = 0; i < 5; ++i) sum += std::exp(x[i] - most);
    const double want = id < 0 ? 0.0 : most + std::log(sum) - x[id];
    CHECK(std::abs(rows.data<double>()[t] - want) <=
          tolerance(DType::f64).exact * (1 + std::abs(want)));
    total += want;
  }
  const Variable loss = cross_entropy_sum(tape, tape.constant(logits), target);
  CHECK(loss.value.shape() == Shape{1});
  CHECK(std::abs(*loss.value.data<double>() - total) <= tolerance(DType::f64).exact * total);
}

TEST_CASE("a negative id is a zero row; an id beyond the table is our bug") {
  const auto backend = Backend::cpu();
  Tape tape(*backend);
  const Variable w = tape.constant(random(*backend, {3, 4}, 3));
  const Tensor y = embedding(tape, w, list<std::int32_t>(*backend, DType::i32, {2, -1})).value;
  for (Index i = 0; i < 4; ++i) {
    CHECK(y[0].data<double>()[i] == w.value[2].data<double>()[i]);
    CHECK(y[1].data<double>()[i] == 0.0);
  }
  CHECK_THROWS_AS(embedding(tape, w, list<std::int32_t>(*backend, DType::i32, {3})), InternalError);
}

TEST_CASE("masking every row zeroes, masking none costs nothing") {
  const auto backend = Backend::cpu();
  Tape tape(*backend);
  const Variable x = tape.input(random(*backend, {2, 3}, 4));
  const auto all = list<std::uint8_t>(*backend, DType::u8, {1, 1});
  CHECK(mask_rows(tape, x, all).value.raw() == x.value.raw());
  const Variable y = mask_rows(tape, x, list<std::uint8_t>(*backend, DType::u8, {0, 1}));
  tape.seed(y, 2.0);
  tape.backward();
  for (Index i = 0; i < 3; ++i) {
    CHECK(y.value[0].data<double>()[i] == 0.0);
    CHECK(y.value[1].data<double>()[i] == x.value[1].data<double>()[i]);
    CHECK(tape.grad(x.slot())[0].data<double>()[i] == 0.0);
    CHECK(tape.grad(x.slot())[1].data<double>()[i] == 2.0);
  }
}

TEST_CASE("norms give rows of unit size") {
  const auto backend = Backend::cpu();
  Tape tape(*backend);
  constexpr Index kWidth = 64;
  const Variable x = tape.constant(random(*backend, {3, kWidth}, 5));
  const Tensor ones = backend->empty(DType::f64, {kWidth});
  std::fill_n(ones.data<double>(), kWidth, 1.0);
  const Variable w = tape.constant(ones);
  const Tensor rms = rms_norm(tape, x, w, 0).value, ln = layer_norm(tape, x, w, nullptr, 0).value;
  for (Index t = 0; t < 3; ++t) {
    double squares = 0, mean = 0, variance = 0;
    for (Index i = 0; i < kWidth; ++i) {
      squares += std::pow(rms[t].data<double>()[i], 2) / kWidth;
      mean += ln[t].data<double>()[i] / kWidth;
      variance += std::pow(ln[t].data<double>()[i], 2) / kWidth;
    }
    CHECK(std::abs(squares - 1) < tolerance(DType::f64).exact);
    CHECK(std::abs(mean) < tolerance(DType::f64).exact);
    CHECK(std::abs(variance - 1) < tolerance(DType::f64).exact);
  }
}
