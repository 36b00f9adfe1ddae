// router_select and the loss ops against the same formulas composed step by step, differentiated in
// forward mode (dual numbers). T tokens, E experts.
#include <algorithm>
#include <array>
#include <cmath>

#include "core/autograd/functions.h"
#include "tests/moe/moe_fixture.h"
#include "tests/support/golden.h"
#include "tests/support/tolerance.h"

using namespace moelab;
using namespace moelab::test;

namespace {

struct Dual {
  double v = 0, d = 0;
};
Dual operator+(Dual a, Dual b) { return {a.v + b.v, a.d + b.d}; }
Dual operator*(Dual a, Dual b) { return {a.v * b.v, a.d * b.v + a.v * b.d}; }
Dual operator/(Dual a, Dual b) { return {a.v / b.v, (a.d * b.v - a.v * b.d) / (b.v * b.v)}; }
Dual exp(Dual a) { return {std::exp(a.v), a.d * std::exp(a.v)}; }
Dual log(Dual a) { return {std::log(a.v), a.d / a.v}; }
Dual pow(Dual a, double p) { return exp(Dual{p} * log(a)); }
Dual sqrt(Dual a) { return {std::sqrt(a.v), a.d / (2 * std::sqrt(a.v))}; }

using Row = std::vector<Dual>;

Row softmax(const Row& x) {
  Row out;
  Dual sum;
  for (const Dual& l : x) {
    out.push_back(exp(l));
    sum = sum + out.back();
  }
  for (Dual& p : out) p = p / sum;
  return out;
}

Row raw_scores(ScoreKind kind, const Row& logits) {
  if (kind == ScoreKind::softmax) return softmax(logits);
  Row out;
  for (const Dual& l : logits)
    out.push_back(kind == ScoreKind::sigmoid ? Dual{1} / (Dual{1} + exp(Dual{-1} * l))
                                             : sqrt(log(Dual{1} + exp(l))));
  return out;
}

Row normalized(Row s, const RouterRule& rule = {}) {
  Dual sum;
  for (const Dual& x : s) sum = sum + pow(x, rule.power);
  sum = pow(sum, 1 / rule.power);
  if (sum.v < rule.floor) sum = {rule.floor};
  sum = sum + Dual{rule.epsilon};
  for (Dual& x : s) x = x / sum;
  return s;
}

// The k best keys by repeated search, within the best groups.
std::vector<std::size_t> choose(const RouterRule& rule, const std::vector<double>& key) {
  std::vector<double> left = key;
  const auto best_of = [](const std::vector<double>& v) {
    return static_cast<std::size_t>(std::max_element(v.begin(), v.end()) - v.begin());
  };
  if (rule.groups > 0) {
    const auto size = static_cast<std::ptrdiff_t>(key.size()) / rule.groups;
    std::vector<double> score;
    for (Index g = 0; g < rule.groups; ++g) {
      std::vector<double> group(key.begin() + g * size, key.begin() + (g + 1) * size);
      std::sort(group.rbegin(), group.rend());
      double sum = 0;
      for (Index i = 0; i < rule.group_top; ++i) sum += group[static_cast<std::size_t>(i)];
      score.push_back(sum);
    }
    for (Index i = 0; i < rule.group_limit; ++i) score[best_of(score)] = -1e9;
    for (std::size_t e = 0; e < key.size(); ++e)
      if (score[e / static_cast<std::size_t>(size)] > -1e8) left[e] = rule.zero_outside ? 0 : -1e9;
  }
  std::vector<std::size_t> chosen;
  for (Index i = 0; i < rule.k; ++i) {
    chosen.push_back(best_of(left));
    left[chosen.back()] = -1e9;
  }
  return chosen;
}

struct Composed {
  std::vector<std::size_t> chosen;
  Row weights, scores;
};

Composed compose(const RouterRule& rule, const Row& logits, const std::vector<double>& bias) {
  const Row raw = raw_scores(rule.score, logits);
  std::vector<double> key;
  for (std::size_t e = 0; e < logits.size(); ++e)
    key.push_back((rule.key_is_logit ? logits[e].v : raw[e].v) + bias[e]);
  Composed out{choose(rule, key), {}, normalized(raw)};
  Row picked;
  for (const std::size_t e : out.chosen)
    picked.push_back(rule.weights == WeightRule::softmax_chosen ? logits[e] : raw[e]);
  if (rule.weights == WeightRule::softmax_chosen) picked = softmax(picked);
  if (rule.weights == WeightRule::normalized && (rule.k > 1 || rule.normalize_single))
    picked = normalized(picked, rule);
  for (const Dual& w : picked) out.weights.push_back(Dual{rule.scaling} * w);
  return out;
}

constexpr Index kTokens = 7, kExperts = 8;

std::vector<double> draw(std::string_view stream, Index n, double size) {
  const Rng rng(3, stream);
  std::vector<double> out;
  for (Index i = 0; i < n; ++i) out.push_back(size * rng.normal(static_cast<std::uint64_t>(i)));
  return out;
}

// d(Σ a·weights + Σ b·scores)/d logits of one token, one direction at a time.
std::vector<double> composed_gradient(const RouterRule& rule, const std::vector<double>& logits,
                                      const std::vector<double>& bias, const std::vector<double>& a,
                                      const std::vector<double>& b) {
  std::vector<double> gradient;
  for (std::size_t direction = 0; direction < logits.size(); ++direction) {
    Row row;
    for (std::size_t e = 0; e < logits.size(); ++e)
      row.push_back({logits[e], e == direction ? 1.0 : 0.0});
    const Composed c = compose(rule, row, bias);
    double d = 0;
    for (std::size_t i = 0; i < a.size(); ++i) d += a[i] * c.weights[i].d;
    for (std::size_t e = 0; e < b.size(); ++e) d += b[e] * c.scores[e].d;
    gradient.push_back(d);
  }
  return gradient;
}

void check_rule(const RouterRule& rule) {
  const auto backend = Backend::cpu();
  const std::vector<double> logits = draw("logits", kTokens * kExperts, 1.5);
  const std::vector<double> bias = draw("bias", kExperts, 0.3);
  const std::vector<double> a = draw("a", kTokens * rule.k, 1),
                            b = draw("b", kTokens * kExperts, 1);
  const Tokens tokens = make_tokens(*backend, 1, kTokens, {1, 1, 1, 0, 1, 1, 1});
  Tape tape(*backend);
  const Variable l = tape.input(reals(*backend, DType::f64, {kTokens, kExperts}, logits));
  const RouterScores fused =
      router_select(tape, l, rule, reals(*backend, DType::f64, {kExperts}, bias), tokens.valid_T,
                    nullptr, DType::f64);
  tape.seed(fused.weight_P, reals(*backend, DType::f64, {kTokens * rule.k}, a));
  tape.seed(fused.scores_TE, reals(*backend, DType::f64, {kTokens, kExperts}, b));
  tape.backward();

  std::vector<double> weights, scores, gradient;
  std::vector<std::int32_t> ids;
  for (Index t = 0; t < kTokens; ++t) {
    const auto row = [&](const std::vector<double>& all, Index width) {
      return std::vector<double>(all.begin() + t * width, all.begin() + (t + 1) * width);
    };
    if (t == 3) {  // padding
      ids.insert(ids.end(), static_cast<std::size_t>(rule.k), -1);
      weights.insert(weights.end(), static_cast<std::size_t>(rule.k), 0.0);
      scores.insert(scores.end(), kExperts, 0.0);
      gradient.insert(gradient.end(), kExperts, 0.0);
      continue;
    }
    Row duals;
    for (const double x : row(logits, kExperts)) duals.push_back({x});
    const Composed c = compose(rule, duals, bias);
    for (const std::size_t e : c.chosen) ids.push_back(static_cast<std::int32_t>(e));
    for (const Dual& w : c.weights) weights.push_back(w.v);
    for (const Dual& s : c.scores) scores.push_back(s.v);
    const auto g =
        composed_gradient(rule, row(logits, kExperts), bias, row(a, rule.k), row(b, kExperts));
    gradient.insert(gradient.end(), g.begin(), g.end());
  }
  const double composed = tolerance(DType::f64).composed;
  CHECK(fused.expert_P == ids);
  CHECK(deviation(doubles(fused.weight_P.value), weights) < composed);
  CHECK(deviation(doubles(fused.scores_TE.value), scores) < composed);
  CHECK(deviation(doubles(tape.grad(l.slot())), gradient) < composed);
}

}  // namespace

TEST_CASE("router_select equals its composed form for every score, weight rule, k and grouping") {
  for (const ScoreKind score : {ScoreKind::softmax, ScoreKind::sigmoid, ScoreKind::sqrtsoftplus})
    for (const WeightRule weights :
         {WeightRule::softmax_chosen, WeightRule::normalized, WeightRule::raw})
      for (const Index k : {1, 2, 3, 8})
        for (const bool grouped : {false, true})
          for (const bool key_is_logit : {false, true}) {
            if (grouped && k > 4) continue;
            RouterRule rule;
            rule.score = score;
            rule.weights = weights;
            rule.k = k;
            rule.scaling = 2.5;
            rule.key_is_logit = key_is_logit;
            if (grouped) {
              rule.groups = 4;
              rule.group_limit = 2;
              rule.group_top = 2;
            }
            CAPTURE(static_cast<int>(score));
            CAPTURE(static_cast<int>(weights));
            CAPTURE(k);
            CAPTURE(grouped);
            check_rule(rule);
          }
}

TEST_CASE("router_select's normalisers and group masks equal their composed form") {
  RouterRule rule;
  rule.score = ScoreKind::sigmoid;
  rule.weights = WeightRule::normalized;
  rule.key_is_logit = false;
  rule.scaling = 1.5;
  for (const Index k : {1, 2, 3})
    for (const double epsilon : {0.0, 0.25})
      for (const double floor : {0.0, 1.4})  // between the sums of k = 2: active for some tokens
        for (const double power : {1.0, 2.0, 3.0})
          for (const bool single : {false, true}) {
            rule.k = k;
            rule.epsilon = epsilon;
            rule.floor = floor;
            rule.power = power;
            rule.normalize_single = single;
            CAPTURE(k);
            CAPTURE(epsilon);
            CAPTURE(floor);
            CAPTURE(power);
            CAPTURE(single);
            check_rule(rule);
          }
  RouterRule masked;
  masked.groups = 4;
  masked.group_limit = masked.group_top = 2;
  masked.zero_outside = true;
  masked.k = 3;
  check_rule(masked);  // keys are logits here, many of them negative
}

TEST_CASE("weighted_lse_square equals its composed form") {
  const auto backend = Backend::cpu();
  const std::vector<double> logits = draw("z", kTokens * kExperts, 4);
  const std::vector<double> weight{.5, 0, 1, 2, 0, .25, 3};
  Tape tape(*backend);
  const Variable l = tape.input(reals(*backend, DType::f64, {kTokens, kExperts}, logits));
  const Variable y = weighted_lse_square(tape, l, reals(*backend, DType::f64, {kTokens}, weight));
  tape.seed(y, 0.7);
  tape.backward();
  double value = 0;
  std::vector<double> gradient;
  for (std::size_t t = 0; t < kTokens; ++t)
    for (std::size_t direction = 0; direction < kExperts; ++direction) {
      Dual sum;
      for (std::size_t e = 0; e < kExperts; ++e)
        sum = sum + exp(Dual{logits[t * kExperts + e], e == direction ? 1.0 : 0.0});
      const Dual square = Dual{weight[t]} * log(sum) * log(sum);
      if (direction == 0) value += square.v;
      gradient.push_back(0.7 * square.d);
    }
  const double composed = tolerance(DType::f64).composed;
  CHECK(deviation(doubles(y.value), {value}) < composed);
  CHECK(deviation(doubles(tape.grad(l.slot())), gradient) < composed);
}
