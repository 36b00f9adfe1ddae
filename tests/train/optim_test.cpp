// AdamW against Algorithm 2 written out in f64, the schedules against their formulas, name rules.
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <numbers>

#include "core/base/threads.h"
#include "core/optim/name_rules.h"
#include "core/optim/optimizer.h"
#include "registry/recipe.h"

using namespace moelab;

namespace {

// A component as a recipe with this text would choose it.
template <class Family>
Component<Family> chosen(const std::string& toml) {
  Component<Family> component;
  Report report;
  const Node root = parse_recipe(toml, "test", Source::Origin::recipe, report);
  read_into(
      root, "", [&](ParamVisitor& v) { v("it", component, "under test"); }, report);
  for (const Problem& problem : report.problems()) INFO(problem.line());
  REQUIRE_FALSE(report.has_errors());
  return component;
}

double rate(const std::string& toml, Index step, Index steps) {
  return chosen<Schedule>(toml).make({steps})->at(step);
}

struct Model {
  std::shared_ptr<Backend> backend = Backend::cpu();
  std::vector<Parameter> parameters;
  std::unique_ptr<Optimizer> optimizer;

  Model(DType dtype, const std::string& toml, Index n = 40000) {
    parameters.push_back(make_parameter(*backend, dtype, "a.weight", {n}, {}, true));
    parameters.push_back(make_parameter(*backend, dtype, "a.norm", {n}, {}, false));
    parameters.push_back(make_parameter(*backend, dtype, "gate.weight", {n}, {}, true));
    std::vector<Parameter*> all;
    for (Parameter& parameter : parameters) {
      initialize(parameter, 7);
      parameter.grad = backend->zeros(dtype, {n});
      all.push_back(&parameter);
    }
    std::vector<std::string> names{"a.weight", "a.norm", "gate.weight"};
    optimizer = chosen<Optimizer>(toml).make({*backend, all, names});
  }
  template <class T>
  void step(Index number, double learning_rate, double scale) {
    for (Parameter& parameter : parameters)
      for (Index i = 0; i < parameter.grad.numel(); ++i)
        parameter.grad.data<T>()[i] = T(std::sin(double(i % 97 + number)));
    optimizer->step(number, learning_rate, scale);
  }
};

}  // namespace

TEST_CASE("adamw equals Algorithm 2 with decoupled decay, factors and clipping") {
  const std::string toml =
      "[it]\ntype = \"adamw\"\nbeta1 = 0.8\nbeta2 = 0.9\neps = 1e-6\nweight_decay = 0.3\n"
      "learning_rate_factors = [\"gate.* = 0.5\"]\nweight_decay_factors = [\"*gate* = 2\"]\n";
  Model model(DType::f64, toml, 100);
  const double rates[] = {0.1, 0.1, 0.05}, decays[] = {0.3, 0.0, 0.6};
  for (std::size_t p = 0; p < 3; ++p) CHECK(model.parameters[p].value.numel() == 100);
  std::array<double, 3> value{}, first{}, second{};
  constexpr Index kElement = 31;
  for (std::size_t p = 0; p < 3; ++p) value[p] = model.parameters[p].value.data<double>()[kElement];
  for (Index t = 1; t <= 5; ++t) {
    model.step<double>(t, 0.1, 0.25);
    const double g = 0.25 * std::sin(double(kElement + t));
    for (std::size_t p = 0; p < 3; ++p) {
      value[p] -= rates[p] * decays[p] * value[p];
      first[p] = 0.8 * first[p] + 0.2 * g;
      second[p] = 0.9 * second[p] + 0.1 * g * g;
      const double m = first[p] / (1 - std::pow(0.8, double(t)));
      const double v = second[p] / (1 - std::pow(0.9, double(t)));
      value[p] -= rates[p] * m / (std::sqrt(v) + 1e-6);
      CHECK(model.parameters[p].value.data<double>()[kElement] ==
            doctest::Approx(value[p]).epsilon(1e-13));
    }
  }
  const auto state = model.optimizer->state(model.parameters[1]);
  CHECK(state.at("exp_avg").data<double>()[kElement] == doctest::Approx(first[1]).epsilon(1e-13));
  CHECK(state.at("exp_avg_sq").data<double>()[kElement] ==
        doctest::Approx(second[1]).epsilon(1e-13));
}

TEST_CASE("adamw decays norms and biases when asked") {
  Model model(DType::f64, "[it]\ntype = \"adamw\"\ndecay_all = true\nweight_decay = 0.5\n", 4);
  Parameter& norm = model.parameters[1];
  const double before = norm.value.data<double>()[2];
  model.optimizer->step(1, 0.1, 1.0);  // gradients are zero: only the decay acts
  CHECK(norm.value.data<double>()[2] == doctest::Approx(before * (1 - 0.05)).epsilon(1e-15));
}

TEST_CASE("rules see the pieces of a fused parameter, by their global names") {
  const std::shared_ptr<Backend> backend = Backend::cpu();
  Parameter fused = make_parameter(*backend, DType::f64, "experts", {3, 2}, {}, true);
  fused.pieces.clear();
  for (Index e = 0; e < 3; ++e) fused.pieces.push_back({str("experts.", e, ".up"), fused.value[e]});
  fill_zero(fused.value);
  fused.grad = backend->zeros(DType::f64, {3, 2});
  for (double& g : fused.grad.span<double>()) g = 1.0;
  const auto make = [&](const std::string& rule) {
    return chosen<Optimizer>(
               str("[it]\ntype = \"adamw\"\nlearning_rate_factors = [\"", rule, "\"]\n"))
        .make({*backend, {&fused}, {"experts.0.up", "experts.1.up", "experts.2.up"}});
  };
  make("*.1.* = 0.5")->step(1, 0.1, 1.0);
  const double whole = fused.value.data<double>()[0];
  CHECK(whole == doctest::Approx(-0.1));
  const double factors[] = {1, 1, 0.5, 0.5, 1, 1};
  for (std::size_t i = 0; i < 6; ++i)
    CHECK(fused.value.data<double>()[i] == doctest::Approx(whole * factors[i]).epsilon(1e-15));
  CHECK_THROWS_WITH_AS(make("*.gate = 0"),
                       "optimizer.learning_rate_factors: '*.gate' matches no parameter; names are "
                       "those of checkpoints, such as experts.2.up",
                       Error);
}

TEST_CASE("adamw gives the same bits for any number of threads") {
  const std::string toml = "it = \"adamw\"\n";
  std::vector<float> reference;
  for (const int count : {1, 2, 3}) {
    set_threads(count);
    Model model(DType::f32, toml, 40001);
    for (Index t = 1; t <= 3; ++t) model.step<float>(t, 1e-2, 0.7);
    const auto values = model.parameters[0].value.span<float>();
    if (reference.empty()) reference.assign(values.begin(), values.end());
    CHECK(std::equal(values.begin(), values.end(), reference.begin()));
  }
  set_threads(1);
}

TEST_CASE("schedules follow their formulas") {
  const std::string constant = "[it]\ntype = \"constant\"\nlearning_rate = 0.5\n";
  CHECK(rate(constant, 0, 10) == 0.5);
  CHECK(rate(constant, 9, 10) == 0.5);

  const std::string cosine =
      "[it]\ntype = \"warmup_cosine\"\nlearning_rate = 0.004\nwarmup_steps = 5\nmin_ratio = 0.1\n";
  CHECK(rate(cosine, 0, 30) == doctest::Approx(0.0008).epsilon(1e-14));
  CHECK(rate(cosine, 4, 30) == doctest::Approx(0.004).epsilon(1e-14));
  for (const Index step : {5, 11, 29}) {
    const double turn = std::cos(std::numbers::pi * double(step - 5) / 25);
    CHECK(rate(cosine, step, 30) ==
          doctest::Approx(0.0004 + 0.0036 / 2 * (1 + turn)).epsilon(1e-14));
  }
  CHECK(rate(cosine, 3, 4) == doctest::Approx(0.0032));  // shorter than the warm-up
  CHECK(rate(cosine, 50, 30) == doctest::Approx(0.0004));

  const std::string linear =
      "[it]\ntype = \"warmup_linear\"\nlearning_rate = 1.0\nwarmup_steps = 10\nmin_ratio = 0.2\n";
  CHECK(rate(linear, 4, 110) == doctest::Approx(0.5));
  CHECK(rate(linear, 10, 110) == doctest::Approx(1.0));
  CHECK(rate(linear, 60, 110) == doctest::Approx(0.6));

  const std::string wsd =
      "[it]\ntype = \"wsd\"\nlearning_rate = 1.0\nwarmup_steps = 2\ndecay_ratio = 0.25\n";
  CHECK(rate(wsd, 0, 100) == doctest::Approx(0.5));
  CHECK(rate(wsd, 2, 100) == 1.0);
  CHECK(rate(wsd, 75, 100) == 1.0);
  CHECK(rate(wsd, 80, 100) == doctest::Approx(0.8));
  CHECK(rate(wsd, 99, 100) == doctest::Approx(0.04));
}

TEST_CASE("a warm-up as long as the run is warned about, a bad rule is an error") {
  Report report;
  Checker checker(report, "schedule");
  chosen<Schedule>("[it]\ntype = \"warmup_cosine\"\nwarmup_steps = 40\n").check({40}, report);
  REQUIRE(report.problems().size() == 1);
  CHECK(report.problems()[0].severity == Problem::Severity::warning);
  Report other;
  chosen<Optimizer>("[it]\ntype = \"adamw\"\nweight_decay_factors = [\"gate\", \"* = -1\"]\n")
      .check({}, other);
  REQUIRE(other.has_errors());
  CHECK(other.problems()[0].text.find("'gate', '* = -1'") != std::string::npos);
}

TEST_CASE("name rules: the first match counts; patterns match whole names") {
  const NameRules rules({"*.gate.weight = 0.1", "model.layers.?.* = 2", "* = 3"});
  CHECK(rules.factor("model.layers.0.mlp.gate.weight") == 0.1);
  CHECK(rules.factor("model.layers.0.mlp.up.weight") == 2);
  CHECK(rules.factor("model.layers.10.mlp.up.weight") == 3);
  CHECK(NameRules({"gate = 5"}).factor("gate.weight") == 1);
  CHECK(glob_matches("*a*b*c", "xxaxxbxxc"));
  CHECK_FALSE(glob_matches("*a*b*c", "xxaxxbxxcd"));
  CHECK(glob_matches("", ""));
  CHECK_FALSE(glob_matches("?", ""));
}
