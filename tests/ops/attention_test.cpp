// Attention and RoPE against plain loops in f64. B rows, L tokens, N query heads, M kv heads, D.
#include <cmath>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>
#include "core/autograd/functions.h"
#include "tests/support/steady_memory.h"
#include "tests/support/tolerance.h"

using namespace moelab;
using moelab::testing::check_steady_memory;

namespace {

Tensor random(Backend& backend, Shape shape, const char* stream) {
  const Tensor t = backend.empty(DType::f64, shape);
  const Rng rng(7, stream);
  for (Index i = 0; i < t.numel(); ++i)
    t.data<double>()[i] = rng.normal(static_cast<std::uint64_t>(i));
  return t;
}

// o of one query token and head, by definition.
std::vector<double> expected(const AttentionShape& s, const Tensor& q, const Tensor& k,
                             const Tensor& v, const std::vector<std::int32_t>& document, Index b,
                             Index i, Index head) {
  const Index kv = head / (s.heads / s.kv_heads), D = s.head_dim;
  std::vector<double> p(static_cast<std::size_t>(i + 1)), o(static_cast<std::size_t>(D));
  double sum = 0;
  for (Index j = 0; j <= i; ++j) {
    double dot = 0;
    for (Index d = 0; d < D; ++d)
      dot += q.data<double>()[(b * s.length + i) * s.heads * D + head * D + d] *
             k.data<double>()[(b * s.length + j) * s.kv_heads * D + kv * D + d];
    const bool seen = document[static_cast<std::size_t>(b * s.length + i)] ==
                      document[static_cast<std::size_t>(b * s.length + j)];
    p[static_cast<std::size_t>(j)] = seen ? std::exp(dot / std::sqrt(static_cast<double>(D))) : 0;
    sum += p[static_cast<std::size_t>(j)];
  }
  for (Index j = 0; j <= i; ++j)
    for (Index d = 0; d < D; ++d)
      o[static_cast<std::size_t>(d)] +=
          p[static_cast<std::size_t>(j)] / sum *
          v.data<double>()[(b * s.length + j) * s.kv_heads * D + kv * D + d];
  return o;
}

void compare(const AttentionShape& s, const std::vector<std::int32_t>& document) {
  const auto backend = Backend::cpu();
  Tape tape(*backend, Tape::Mode::forward);
  const Index tokens = s.batch * s.length;
  const Tensor q = random(*backend, {tokens, s.heads * s.head_dim}, "q");
  const Tensor k = random(*backend, {tokens, s.kv_heads * s.head_dim}, "k");
  const Tensor v = random(*backend, {tokens, s.kv_heads * s.head_dim}, "v");
  const Tensor ids = backend->empty(DType::i32, {tokens});
  std::copy(document.begin(), document.end(), ids.data<std::int32_t>());
  const Variable o = attention(tape, tape.constant(q), tape.constant(k), tape.constant(v), s, ids);
  double worst = 0;
  for (Index b = 0; b < s.batch; ++b)
    for (Index i = 0; i < s.length; ++i)
      for (Index n = 0; n < s.heads; ++n) {
        const auto want = expected(s, q, k, v, document, b, i, n);
        for (Index d = 0; d < s.head_dim; ++d)
          worst = std::max(
              worst, std::abs(want[static_cast<std::size_t>(d)] -
                              o.value.data<double>()[(b * s.length + i) * s.heads * s.head_dim +
                                                     n * s.head_dim + d]));
      }
  CHECK(worst < tolerance(DType::f64).exact);
}

}  // namespace

TEST_CASE("attention equals its definition") {
  const AttentionShape shape{2, 37, 4, 2, 6, 0};
  std::vector<std::int32_t> one(74, 0), packed(74), mixed(74);
  for (std::size_t t = 0; t < 74; ++t) {
    packed[t] = static_cast<std::int32_t>(t / 10);
    mixed[t] = static_cast<std::int32_t>(t % 3);
  }
  SUBCASE("one document") { compare(shape, one); }
  SUBCASE("packed documents") { compare(shape, packed); }
  SUBCASE("interleaved documents") { compare(shape, mixed); }
}

TEST_CASE("attention asks the arena for the same memory in every pass, on any number of threads") {
  const auto backend = Backend::cpu();
  const AttentionShape shape{3, 37, 4, 2, 6, 0};
  const Tensor q = random(*backend, {111, 24}, "q"), kv = random(*backend, {111, 12}, "kv");
  const auto pass = [&] {
    Tape tape(*backend);
    const Variable o =
        attention(tape, tape.input(q), tape.input(kv), tape.input(kv), shape, Tensor{});
    tape.seed(o, 1.0);
    tape.backward();
  };
  check_steady_memory(*backend, pass, [&] {
    for (int i = 0; i < 20; ++i) pass();
  });
}

TEST_CASE("rope turns pairs (j, j + D/2) by position · theta^(-2j/D)") {
  const auto backend = Backend::cpu();
  Tape tape(*backend, Tape::Mode::forward);
  const Index D = 4;
  const Tensor x = random(*backend, {3, 2 * D}, "x");
  const Tensor position = backend->empty(DType::i32, {3});
  // Beyond the number of tokens, so that the table has a row a token, and within it.
  for (const std::int32_t first : {0, 1000}) {
    for (std::int32_t t = 0; t < 3; ++t) position.data<std::int32_t>()[t] = first + t % 2;
    const Variable y = rope(tape, tape.constant(x), 2, 10000.0, position);
    for (Index t = 0; t < 3; ++t)
      for (Index n = 0; n < 2; ++n)
        for (Index j = 0; j < D / 2; ++j) {
          const Index at = t * 2 * D + n * D + j;
          const double angle = static_cast<double>(first + t % 2) *
                               std::pow(10000.0, -2.0 * static_cast<double>(j) / 4.0);
          const double a = x.data<double>()[at], b = x.data<double>()[at + D / 2];
          CHECK(y.value.data<double>()[at] ==
                doctest::Approx(a * std::cos(angle) - b * std::sin(angle))
                    .epsilon(tolerance(DType::f64).exact));
          CHECK(y.value.data<double>()[at + D / 2] ==
                doctest::Approx(b * std::cos(angle) + a * std::sin(angle))
                    .epsilon(tolerance(DType::f64).exact));
        }
  }
}
