// What stands around the routed experts, against the formulas written out: shared experts, free
// experts, latent width, where the weight is multiplied. T tokens, H hidden, F width, d latent.
#include <doctest/doctest.h>

#include <cmath>
#include <map>

#include "core/lab/layer_bench.h"
#include "tests/moe/moe_fixture.h"
#include "tests/support/golden.h"
#include "tests/support/tolerance.h"

using namespace moelab;
using namespace moelab::test;

namespace {

using Vector = std::vector<double>;

Vector scaled(double c, Vector a) {
  for (double& v : a) v *= c;
  return a;
}
Vector operator+(Vector a, const Vector& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}
Vector softmax(Vector a) {
  double sum = 0;
  for (double& v : a) sum += v = std::exp(v);
  return scaled(1 / sum, a);
}

// A layer whose output is known in full: routing from the layer, everything after it from here.
class Reference {
 public:
  explicit Reference(const std::string& toml, LayerCase c = {}) : case_(c) {
    with_ranks(1, 1, [&](RankContext& ranks) {
      LayerBench bench(moe_params(toml), c, ranks);
      for (const Parameter* p : bench.parameters())
        for (const Piece& piece : p->pieces) {
          weight_[piece.name] = doubles(piece.value);
          rows_[piece.name] = piece.value.size(0);
        }
      StepFacts facts;
      facts.instances_in_step = [](ScopeSpec) { return Index{1}; };
      Tape tape(*ranks.backend, Tape::Mode::forward);
      const Variable x = tape.constant(bench.x());
      const FfnOutput out = bench.layer().forward(tape, {x, bench.tokens(), {}, facts});
      y_ = doubles(out.y_TH.value);
      x_ = doubles(bench.x());
      weight_P_ = doubles(out.routing->weight_P.value);
      plan = *out.routing->plan;
    });
  }
  Vector x(Index t) const {
    const auto begin = x_.begin() + t * case_.hidden;
    return {begin, begin + case_.hidden};
  }
  Vector apply(const std::string& name, const Vector& in) const {  // W · in
    const Vector& w = weight_.at("model.layers.0.mlp." + name);
    Vector out(static_cast<std::size_t>(rows_.at("model.layers.0.mlp." + name)), 0.0);
    REQUIRE(w.size() == out.size() * in.size());
    for (std::size_t i = 0; i < out.size(); ++i)
      for (std::size_t j = 0; j < in.size(); ++j) out[i] += w[i * in.size() + j] * in[j];
    return out;
  }
  Vector bias(const std::string& name) const { return weight_.at("model.layers.0.mlp." + name); }
  Vector swiglu(const std::string& prefix, const Vector& in) const {
    const Vector gate = apply(prefix + ".gate_proj.weight", in);
    Vector a = apply(prefix + ".up_proj.weight", in);
    for (std::size_t i = 0; i < a.size(); ++i) a[i] *= gate[i] / (1 + std::exp(-gate[i]));
    return apply(prefix + ".down_proj.weight", a);
  }
  Vector expert(std::int32_t e, const Vector& in) const { return swiglu(str("experts.", e), in); }
  // Σ over the token's kept pairs of f(expert, weight).
  template <class F>
  Vector sum_pairs(Index t, std::size_t width, const F& f) const {
    Vector sum(width, 0.0);
    for (Index p = plan.begin(t); p < plan.end(t); ++p) {
      const auto at = static_cast<std::size_t>(p);
      if (plan.fate_P[at] == PairFate::kept) sum = sum + f(plan.expert_P[at], weight_P_[at]);
    }
    return sum;
  }
  Vector routed(Index t) const {
    return sum_pairs(t, x(t).size(),
                     [&](std::int32_t e, double w) { return scaled(w, expert(e, x(t))); });
  }
  // The layer's output is `token(t)` at every token.
  template <class F>
  void check(const F& token) const {
    Vector want;
    for (Index t = 0; t < plan.tokens; ++t)
      for (const double v : token(t)) want.push_back(v);
    CHECK(deviation(y_, want) < tolerance(DType::f64).composed);
  }

  RoutingPlan plan;

 private:
  LayerCase case_;
  std::map<std::string, Vector> weight_;
  std::map<std::string, Index> rows_;
  Vector x_, y_, weight_P_;
};

const std::string kExperts = "num_experts = 4\nexperts = { type = \"grouped\", width = 12 }\n";

}  // namespace

TEST_CASE("shared experts: plain and gated are added, residual mixes") {
  const Reference plain(kExperts + "shared = { type = \"plain\", width = 5 }\n");
  plain.check(
      [&](Index t) { return plain.routed(t) + plain.swiglu("shared_experts", plain.x(t)); });

  const Reference gated(kExperts + "shared = { type = \"gated\", width = 5 }\n");
  gated.check([&](Index t) {
    const double g = gated.apply("shared_expert_gate.weight", gated.x(t))[0];
    return gated.routed(t) +
           scaled(1 / (1 + std::exp(-g)), gated.swiglu("shared_experts", gated.x(t)));
  });

  const Reference residual(kExperts + "shared = { type = \"residual\", width = 12 }\n");
  residual.check([&](Index t) {
    const Vector c = softmax(residual.apply("coefficient.weight", residual.x(t)) +
                             residual.bias("coefficient.bias"));
    return scaled(c[0], residual.routed(t)) +
           scaled(c[1], residual.swiglu("shared_experts", residual.x(t)));
  });
}

TEST_CASE("free experts follow the networks' ids and do what their names say") {
  const Reference layer(kExperts +
                        "router = { type = \"sigmoid\", k = 5 }\n"
                        "free_experts.a = { type = \"zero\", count = 1 }\n"
                        "free_experts.b = { type = \"copy\", count = 2 }\n"
                        "free_experts.c = { type = \"constant\", count = 2 }\n");
  std::vector<Index> seen(9, 0);
  layer.check([&](Index t) {
    return layer.sum_pairs(t, 8, [&](std::int32_t e, double w) {
      ++seen.at(static_cast<std::size_t>(e));
      if (e < 4) return scaled(w, layer.expert(e, layer.x(t)));
      if (e == 4) return Vector(8, 0.0);
      if (e < 7) return scaled(w, layer.x(t));
      const std::string name = str("free_experts.c.", e - 7);
      const Vector a = softmax(layer.apply(name + ".mix.weight", layer.x(t)));
      return scaled(w * a[0], layer.x(t)) +
             scaled(w * a[1], layer.apply(name + ".value.weight", {1.0}));
    });
  });
  for (const Index count : seen) CHECK(count > 0);
}

TEST_CASE("free experts are counted, never dropped, and never get filler rows") {
  const Reference layer(kExperts +
                        "router = { type = \"sigmoid\", k = 3 }\n"
                        "free_experts = { copy = { count = 4 } }\n"
                        "dropper = { type = \"probs\", capacity_factor = 0.5, pad_to_capacity = "
                        "true, scope = \"batch\" }\n");
  const std::vector<Index> before = layer.plan.counts_before_drop(),
                           kept = layer.plan.counts_kept();
  REQUIRE(before.size() == 8);
  Index dropped = 0;
  for (std::size_t e = 0; e < 8; ++e) {
    CHECK((e < 4 || before[e] == kept[e]));
    CHECK((e < 4 || layer.plan.filler_E[e] == 0));
    if (e >= 4) CHECK(before[e] > 6);  // more than the capacity, 32 · 3 · 0.5 / 8
    dropped += before[e] - kept[e];
  }
  CHECK(dropped > 0);
  layer.check([&](Index t) {
    return layer.sum_pairs(t, 8, [&](std::int32_t e, double w) {
      return scaled(w, e < 4 ? layer.expert(e, layer.x(t)) : layer.x(t));
    });
  });
}

TEST_CASE("latent: experts work in it; the router, free and shared experts see the full width") {
  const Reference layer(kExperts +
                        "latent = 3\nrouter = { type = \"sigmoid\", k = 3 }\n"
                        "shared = { type = \"plain\", width = 5 }\n"
                        "free_experts = { copy = { count = 2 } }\n");
  layer.check([&](Index t) {
    const Vector z = layer.apply("latent_in.weight", layer.x(t));
    REQUIRE(z.size() == 3);
    const Vector o = layer.sum_pairs(t, 3, [&](std::int32_t e, double w) {
      return e < 4 ? scaled(w, layer.expert(e, z)) : Vector(3, 0.0);
    });
    const Vector copied = layer.sum_pairs(t, 8, [&](std::int32_t e, double w) {
      return e < 4 ? Vector(8, 0.0) : scaled(w, layer.x(t));
    });
    return layer.apply("latent_out.weight", o) + copied +
           layer.swiglu("shared_experts", layer.x(t));
  });
}

TEST_CASE("the combine weight: on hidden and output the same function, on the input another") {
  const std::string experts =
      "num_experts = 4\nrouter = { type = \"sigmoid\" }\nexperts = { type = \"sequential\", width "
      "= 12, ";
  for (const char* at : {"hidden", "output", "input"}) {
    CAPTURE(at);
    const Reference layer(experts + "weight_at = \"" + at + "\" }\n");
    layer.check([&](Index t) {
      return layer.sum_pairs(t, 8, [&](std::int32_t e, double w) {
        return std::string(at) == "input" ? layer.expert(e, scaled(w, layer.x(t)))
                                          : scaled(w, layer.expert(e, layer.x(t)));
      });
    });
  }
}
