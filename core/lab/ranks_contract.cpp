#include "core/lab/ranks_contract.h"

#include <cmath>
#include <map>

#include "core/lab/layer_bench.h"
#include "core/lab/op_checks.h"
#include "core/lab/tolerance.h"

namespace moelab {
namespace {

// Gradients by checkpoint name, as the trainer adds them up: over all ranks that hold the piece.
using PieceGradients = std::map<std::string, Tensor>;

PieceGradients piece_gradients(LayerBench& bench) {
  PieceGradients out;
  for (const Parameter* parameter : bench.parameters()) {
    if (!parameter->grad) continue;
    const std::vector<Tensor> parts = parameter->split(parameter->grad);
    for (std::size_t i = 0; i < parts.size(); ++i) out[parameter->pieces[i].name] = parts[i];
  }
  return out;
}

void add_gradients(PieceGradients& sum, const PieceGradients& more) {
  for (const auto& [name, gradient] : more) {
    const auto [at, fresh] = sum.try_emplace(name, gradient);
    for (Index i = 0; !fresh && i < gradient.numel(); ++i)
      at->second.data<double>()[i] += gradient.data<double>()[i];
  }
}

std::string sums_differ(const std::vector<LayerRun>& part, std::vector<PieceGradients>& gradients,
                        const LayerRun& whole, const PieceGradients& expected) {
  for (std::size_t i = 0; i < whole.losses.size(); ++i) {
    double sum = 0;
    for (const LayerRun& run : part) sum += run.losses[i];
    if (whole.replicated[i]) sum /= static_cast<double>(part.size());
    if (!(std::abs(sum - whole.losses[i]) <=
          tolerance(DType::f64).composed * std::abs(whole.losses[i])))
      return str("loss ", i, " is ", sum, " on 2 ranks, ", whole.losses[i], " on one");
  }
  for (std::size_t r = 1; r < gradients.size(); ++r) add_gradients(gradients[0], gradients[r]);
  for (const auto& [name, gradient] : expected) {
    const auto found = gradients[0].find(name);
    if (found == gradients[0].end()) return str("no rank has a gradient of ", name);
    const std::string broken = differs(found->second, gradient, "the gradient of " + name);
    if (!broken.empty()) return "2 ranks: " + broken;
  }
  return "";
}

}  // namespace

std::string differs(const Tensor& got, const Tensor& want, const std::string& what) {
  const OpError error = compare(got, want, what);
  if (error.worst <= tolerance(want.dtype()).composed) return "";
  return str("differs by ", error.worst, ": ", error.where);
}

std::string ranks_broken(const ContractSubject& subject) {
  const LayerCase c;
  LayerRun whole;
  PieceGradients expected;
  with_ranks(1, 1, [&](RankContext& ranks) {
    LayerBench bench(subject.params, c, ranks);
    whole = bench.run();
    expected = piece_gradients(bench);
  });
  const int ep = subject.params.dispatcher.traits().needs_single_rank ? 1 : 2;
  std::vector<LayerRun> part(2);
  std::vector<PieceGradients> gradients(2);
  with_ranks(2, ep, [&](RankContext& ranks) {
    const auto rank = static_cast<std::size_t>(ranks.rank);
    LayerBench bench(subject.params, c, ranks);
    part[rank] = bench.run();
    gradients[rank] = piece_gradients(bench);
  });
  const Index half = whole.y_TH.size(0) / 2;
  for (std::size_t r = 0; r < part.size(); ++r) {
    const Index first = static_cast<Index>(r) * half;
    std::string broken = differs(part[r].y_TH, whole.y_TH.rows(first, half), "output");
    if (broken.empty())
      broken = differs(part[r].x_grad_TH, whole.x_grad_TH.rows(first, half), "input's gradient");
    if (!broken.empty()) return str("rank ", r, " of 2 ", broken);
  }
  return sums_differ(part, gradients, whole, expected);
}

}  // namespace moelab
