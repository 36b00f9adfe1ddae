// One MoE layer on made-up tokens, run forward and backward: what contracts compare. T tokens, H
// hidden, E experts.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "core/moe/moe_layer.h"

namespace moelab {

struct LayerCase {
  Index rows = 4, length = 8;  // of the global micro-batch
  Index hidden = 8;
  DType dtype = DType::f64;
  // Rows from `valid_rows` on and columns from `valid_columns` on are padding with large values.
  Index valid_rows = -1, valid_columns = -1;  // −1: all
  Phase phase = Phase::train;
  bool recompute = false;
  const ForcedRouting* forced = nullptr;
};

struct LayerRun {
  Tensor y_TH, x_grad_TH;
  std::vector<Tensor> gradients;  // of the parameters, in their order
  std::vector<double> losses;     // balancing losses: values, unweighted
  std::vector<bool> replicated;   // which of them stand on every rank; the others add up
  double objective = 0;           // Σ y·c + Σ losses, c fixed numbers
  std::shared_ptr<RoutingRecord> record;
};

class LayerBench {
 public:
  // Collective. Balancers' controllers have moved once, so that biases are not zero.
  LayerBench(const MoeParams& params, const LayerCase& c, RankContext& ranks);
  LayerRun run();      // forward and backward, gradients of `objective`
  LayerRun forward();  // forward only
  const Tensor& x() const { return x_TH_; }
  const Tokens& tokens() const { return tokens_; }
  MoeLayer& layer() { return layer_; }
  std::vector<Parameter*> parameters();

 private:
  LayerRun run(Tape& tape, bool backward);

  LayerCase case_;
  RankContext& ranks_;
  MoeLayer layer_;
  Tokens tokens_;
  Tensor x_TH_, cotangent_TH_;
};

// Runs `body` as every rank of an inproc world with `ranks` ranks.
void with_ranks(int ranks, int ep, const std::function<void(RankContext&)>& body);

bool same_bits(const Tensor& a, const Tensor& b);

}  // namespace moelab
