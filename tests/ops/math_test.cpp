#include "core/ops/math.k.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

using namespace moelab::cpu_kernels;

namespace {

// Error of `f` in units of the last place, worst over [low, high].
template <class T, class F, class Exact>
double worst_ulp(double low, double high, const F& f, const Exact& exact) {
  constexpr int kPoints = 200000;
  double worst = 0;
  for (int i = 0; i <= kPoints; ++i) {
    const T x = static_cast<T>(low + (high - low) * i / kPoints);
    const long double want = exact(static_cast<long double>(x));
    const T rounded = static_cast<T>(want);
    const T ulp =
        std::nextafter(std::abs(rounded), std::numeric_limits<T>::max()) - std::abs(rounded);
    const double error = static_cast<double>(std::abs(static_cast<long double>(f(x)) - want) /
                                             static_cast<long double>(ulp));
    worst = std::isfinite(error) ? std::max(worst, error) : std::numeric_limits<double>::max();
  }
  return worst;
}

const auto exp_l = [](long double x) { return std::exp(x); };
const auto sigmoid_l = [](long double x) { return 1 / (1 + std::exp(-x)); };
const auto log1p_l = [](long double x) { return std::log1p(x); };
const auto softplus_l = [](long double x) {
  return std::max(x, 0.0L) + std::log1p(std::exp(-std::abs(x)));
};
const auto tanh_l = [](long double x) { return std::tanh(x); };

}  // namespace

TEST_CASE("fast_exp, fast_sigmoid and fast_tanh are accurate") {
  CHECK(worst_ulp<float>(
            -86.4, 88.7, [](float x) { return fast_exp(x); }, exp_l) < 2);
  CHECK(worst_ulp<double>(
            -700, 709, [](double x) { return fast_exp(x); }, exp_l) < 4);
  CHECK(worst_ulp<double>(
            -1, 1, [](double x) { return fast_exp(x); }, exp_l) < 2);
  CHECK(worst_ulp<float>(
            -80, 80, [](float x) { return fast_sigmoid(x); }, sigmoid_l) < 4);
  CHECK(worst_ulp<double>(
            -80, 80, [](double x) { return fast_sigmoid(x); }, sigmoid_l) < 4);
  CHECK(worst_ulp<float>(
            -9, 9, [](float x) { return fast_tanh(x); }, tanh_l) < 4);
  CHECK(worst_ulp<double>(
            -9, 9, [](double x) { return fast_tanh(x); }, tanh_l) < 4);
}

TEST_CASE("fast_log1p and fast_softplus are accurate") {
  for (const double high : {1.0, 1e-3, 1e-30}) {
    CAPTURE(high);
    CHECK(worst_ulp<float>(
              0, high, [](float x) { return fast_log1p(x); }, log1p_l) < 2);
    CHECK(worst_ulp<double>(
              0, high, [](double x) { return fast_log1p(x); }, log1p_l) < 4);
  }
  CHECK(worst_ulp<float>(
            -80, 80, [](float x) { return fast_softplus(x); }, softplus_l) < 4);
  CHECK(worst_ulp<double>(
            -80, 80, [](double x) { return fast_softplus(x); }, softplus_l) < 4);
}

TEST_CASE_TEMPLATE("the ends of the range are exact", T, float, double) {
  constexpr T kInf = std::numeric_limits<T>::infinity();
  CHECK(fast_exp(T(0)) == T(1));
  CHECK(fast_exp(-kInf) == T(0));
  CHECK(fast_exp(kInf) == kInf);
  CHECK(fast_exp(T(-1000)) == T(0));
  CHECK(fast_exp(T(1000)) == kInf);
  CHECK(std::isnan(fast_exp(std::numeric_limits<T>::quiet_NaN())));
  CHECK(fast_sigmoid(-kInf) == T(0));
  CHECK(fast_sigmoid(kInf) == T(1));
  CHECK(fast_log1p(T(0)) == T(0));
  CHECK(fast_softplus(kInf) == kInf);
  CHECK(fast_softplus(-kInf) == T(0));
  CHECK(std::isnan(fast_softplus(std::numeric_limits<T>::quiet_NaN())));
  CHECK(fast_tanh(T(0)) == T(0));
  CHECK(fast_tanh(kInf) == T(1));
  CHECK(fast_tanh(-kInf) == T(-1));
  CHECK(std::isnan(fast_tanh(std::numeric_limits<T>::quiet_NaN())));
}
