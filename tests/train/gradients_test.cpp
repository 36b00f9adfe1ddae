// Gradient sums over replicas, the global norm over distinct parameters on every layout, and the
// name of what is not finite.
#include "core/optim/gradients.h"

#include <doctest/doctest.h>

#include <cmath>
#include <mutex>

using namespace moelab;

namespace {

constexpr Index kExperts = 4;

double element(Index piece, Index i) { return std::sin(static_cast<double>(piece * 100 + i)); }

// A dense parameter (one piece), a norm that never receives a gradient, and experts of two
// parameters, laid out for expert-parallel rank `at` of `ep`.
std::vector<Parameter> parameters_of(const RankContext& ranks, Index ep, Index at) {
  const Backend& backend = *ranks.backend;
  std::vector<Parameter> out;
  out.push_back(make_parameter(backend, DType::f64, "dense", {70}, {}, true));
  out.push_back(make_parameter(backend, DType::f64, "norm", {5}, {}, false));
  const Index own = kExperts / ep;
  for (const char* part : {"up", "down"}) {
    Parameter experts =
        make_parameter(backend, DType::f64, part, {own, 9}, {}, true, Placement::expert);
    experts.pieces.clear();
    for (Index e = 0; e < own; ++e)
      experts.pieces.push_back({str("experts.", at * own + e, ".", part), experts.value[e]});
    out.push_back(std::move(experts));
  }
  return out;
}

// Every rank's local gradient is its share of the whole: replicas hold equal parts of it.
void set_gradients(std::vector<Parameter>& parameters, const RankContext& ranks, Index own,
                   Index at) {
  const auto fill = [](Parameter& p, Index first_piece, double share) {
    p.grad_written = true;
    for (std::size_t piece = 0; piece < p.pieces.size(); ++piece) {
      const Tensor part = p.split(p.grad)[piece];
      for (Index i = 0; i < part.numel(); ++i)
        part.data<double>()[i] = share * element(first_piece + static_cast<Index>(piece), i);
    }
  };
  for (Parameter& p : parameters) p.grad = ranks.backend->empty_like(p.value);
  fill(parameters[0], 0, 1.0 / ranks.dp->size());
  fill(parameters[2], 10 + at * own, 1.0 / ranks.edp->size());
  fill(parameters[3], 20 + at * own, 1.0 / ranks.edp->size());
}

struct Outcome {
  double norm = 0;
  std::string non_finite;
};

Outcome norm_of(Index ranks, Index ep, bool poison) {
  Outcome out;
  std::mutex guard;
  const auto world =
      Component<World>("inproc").make({static_cast<int>(ranks), std::chrono::seconds(60)});
  world->run([&](Rank& rank) {
    const RankContext context =
        make_rank_context(rank, Topology({ranks, 1, 1, ep, 1}), Backend::cpu(), true);
    const Index at = context.ep->rank();
    std::vector<Parameter> parameters = parameters_of(context, ep, at);
    std::vector<Parameter*> pointers;
    for (Parameter& p : parameters) pointers.push_back(&p);
    Gradients gradients(pointers, context);
    set_gradients(parameters, context, kExperts / ep, at);
    if (poison)
      for (const Piece& piece : parameters[2].pieces)
        if (piece.name == "experts.3.up")
          parameters[2].grad.data<double>()[parameters[2].grad.numel() - 1] = NAN;
    gradients.reduce();
    const double norm = gradients.norm();
    for (const double x : parameters[1].grad.span<double>()) CHECK(x == 0);
    gradients.clear();
    CHECK_FALSE(parameters[0].grad_written);
    const std::lock_guard lock(guard);
    if (rank.rank() == 0) out = {norm, gradients.non_finite()};
    if (!poison && out.norm != 0) CHECK(out.norm == norm);
  });
  return out;
}

}  // namespace

TEST_CASE("gradient norm: over distinct parameters, on every layout") {
  double sum = 0;
  for (Index i = 0; i < 70; ++i) sum += element(0, i) * element(0, i);
  for (const Index first : {10, 20})
    for (Index e = 0; e < kExperts; ++e)
      for (Index i = 0; i < 9; ++i) sum += element(first + e, i) * element(first + e, i);
  const double one = norm_of(1, 1, false).norm;
  CHECK(one == doctest::Approx(std::sqrt(sum)).epsilon(1e-14));
  // Halves and quarters are exact, so every layout gives the same bits.
  CHECK(norm_of(2, 1, false).norm == one);
  CHECK(norm_of(2, 2, false).norm == one);
  CHECK(norm_of(4, 4, false).norm == one);
  CHECK(norm_of(4, 2, false).norm == one);
}

TEST_CASE("gradient norm: what is not finite is named alike on every layout") {
  CHECK(norm_of(1, 1, false).non_finite == "");
  CHECK(norm_of(1, 1, true).non_finite == "experts.3.up");
  CHECK(norm_of(4, 2, true).non_finite == "experts.3.up");
  CHECK(std::isnan(norm_of(2, 2, true).norm));
}

TEST_CASE("clipping brings the norm down to the limit") {
  CHECK(clip_factor(0.5, 1.0) == 1.0);
  CHECK(clip_factor(4.0, 1.0) == doctest::Approx(0.25).epsilon(1e-6));
  CHECK(clip_factor(4.0, 0.0) == 1.0);
}
