#include "core/backend/gemm.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/base/rng.h"
#include "core/base/threads.h"

using namespace moelab;

namespace {

template <class T>
void long_sum(const GemmArgs<T>& args) {
  static const std::shared_ptr<Backend> backend = Backend::cpu();
  gemm_long_sum(*backend, args);
}

template <class T>
struct Problem {
  GemmArgs<T> args;
  std::vector<T> a, b, c;

  Problem(Index m, Index n, Index k, bool ta, bool tb, T alpha, T beta) {
    const Rng rng(1, "gemm");
    const auto filled = [&](Index rows, Index stride, std::uint64_t salt) {
      std::vector<T> v(static_cast<std::size_t>(rows * stride));
      for (std::size_t i = 0; i < v.size(); ++i)
        v[i] = static_cast<T>(rng.with_salt(salt).uniform(i) - 0.5);
      return v;
    };
    args = {ta,   tb,      m,    n, k, alpha, nullptr, (ta ? m : k) + 3, nullptr, (tb ? k : n) + 1,
            beta, nullptr, n + 2};
    a = filled(ta ? k : m, args.lda, 1);
    b = filled(tb ? n : k, args.ldb, 2);
    c = filled(m, args.ldc, 3);
  }
  std::vector<T> run(void (*product)(const GemmArgs<T>&)) const {
    std::vector<T> out = c;
    if (args.beta == T(0))  // beta = 0 must not read C
      std::fill(out.begin(), out.end(), std::numeric_limits<T>::quiet_NaN());
    GemmArgs<T> g = args;
    g.a = a.data(), g.b = b.data(), g.c = out.data();
    product(g);
    return out;
  }
  // The largest error of an element over what rounding k products may cost.
  double worst(const std::vector<T>& out) const {
    double most = 0;
    for (Index i = 0; i < args.m; ++i)
      for (Index j = 0; j < args.n; ++j) {
        double sum = 0, size = 0;
        for (Index p = 0; p < args.k; ++p) {
          const double x =
              a[static_cast<std::size_t>(args.transpose_a ? p * args.lda + i : i * args.lda + p)];
          const double y =
              b[static_cast<std::size_t>(args.transpose_b ? j * args.ldb + p : p * args.ldb + j)];
          sum += x * y;
          size += std::abs(x * y);
        }
        const auto at = static_cast<std::size_t>(i * args.ldc + j);
        const double want = args.alpha * sum + args.beta * static_cast<double>(c[at]);
        size += std::abs(want) + 1;
        const double error = std::abs(static_cast<double>(out[at]) - want) / size;
        most = std::isfinite(error) ? std::max(most, error) : std::numeric_limits<double>::max();
      }
    return most / static_cast<double>(std::numeric_limits<T>::epsilon());
  }
};

}  // namespace

TEST_CASE_TEMPLATE("products of odd shapes, all transposes and betas equal the definition", T,
                   float, double) {
  const Index shapes[][3] = {{1, 1, 1},    {3, 5, 7},       {6, 16, 4},  {129, 33, 65},
                             {17, 300, 9}, {131, 257, 300}, {0, 3, 2},   {4, 5, 0},
                             {5, 3, 2500}, {1030, 2, 1100}, {5, 0, 2500}};
  for (const auto& mnk : shapes)
    for (const bool ta : {false, true})
      for (const bool tb : {false, true})
        for (const T beta : {T(0), T(1), T(0.5)}) {
          INFO(str("m ", mnk[0], " n ", mnk[1], " k ", mnk[2], " transposed ", ta, tb, " beta ",
                   beta));
          const Problem<T> p(mnk[0], mnk[1], mnk[2], ta, tb, beta == T(1) ? T(1) : T(1.5), beta);
          CHECK(p.worst(p.run(gemm<T>)) < 8);
          CHECK(p.worst(p.run(gemm_one_thread<T>)) < 8);
          CHECK(p.worst(p.run(long_sum<T>)) < 8);
        }
}

TEST_CASE_TEMPLATE("the number of threads changes no bit of a product", T, float, double) {
  const int before = threads();
  const Index shapes[][3] = {{37, 300, 2100}, {260, 70, 2048}, {1100, 40, 96}};
  for (const auto& [m, n, k] : shapes) {
    const Problem<T> p(m, n, k, false, true, T(1), T(1));
    set_threads(1);
    const std::vector<T> one = p.run(gemm<T>), one_long = p.run(long_sum<T>);
    for (const int count : {2, 4}) {
      set_threads(count);
      CHECK(p.run(gemm<T>) == one);
      CHECK(p.run(long_sum<T>) == one_long);
    }
  }
  set_threads(before);
}

TEST_CASE("the library names itself") { CHECK(std::string(gemm_library()).starts_with("oneDNN ")); }
