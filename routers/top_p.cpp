// As many experts as it takes to gather a probability p (Huang et al. 2024, "Harder Tasks Need More
// Experts", arXiv:2403.07652): the expert that crosses p is included. T tokens, E experts.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/base/threads.h"
#include "core/moe/gate.h"
#include "core/moe/pair_routing.h"

namespace moelab {
namespace {

class TopP final : public GatedRouter {
 public:
  struct Params : GateParams {
    double p = 0.4;
    std::int64_t max_k = 0;
    bool normalize = false;
    double scaling = 1.0;
    double mean_k = 2.0;
    void describe(ParamVisitor& v) {
      v("p", p, "probability that a token's experts gather together", {0.0, 1.0, true});
      v("max_k", max_k, "most experts of a token; 0: no limit", at_least(0));
      v("normalize", normalize, "divide the chosen probabilities by their sum");
      v("scaling", scaling, "factor on the combine weights", greater_than(0));
      v("mean_k", mean_k,
        "experts a token is expected to use on average: what explain counts work with",
        greater_than(0));
      GateParams::describe(v);
    }
    void check(const Router::Facts& facts, Checker& checker) const {
      if (max_k > facts.experts)
        checker.error("max_k", "is more than the layer's ", facts.experts, " experts");
      if (mean_k > static_cast<double>(max_k > 0 ? max_k : facts.experts))
        checker.error("mean_k", "is more than the most experts a token may use, ",
                      max_k > 0 ? max_k : facts.experts);
    }
    Router::Traits traits() const {
      Router::Traits traits = GateParams::traits();
      traits.variable_k = true;
      traits.mean_k = mean_k;
      return traits;
    }
    std::string formula() const {
      return str("scores s = softmax(", logits_text(),
                 "); choose by falling s + choice bias (if a balancer gives ",
                 "one) until the chosen s sum to ", exact(p),
                 max_k > 0 ? str(" or ", max_k, " are chosen") : std::string(),
                 "; weights w_i = s_i", normalize ? " / sum over chosen s_j" : "",
                 scaling == 1.0 ? "" : " * " + exact(scaling));
    }
  };
  TopP(const Params& params, const Context& context)
      : GatedRouter(params, context), params_(params) {}

  Routing route(Tape& tape, const RouterInput& input) override {
    return route_pairs(
        tape, input, logits(tape, input), {ScoreKind::softmax, params_.normalize, params_.scaling},
        [&](const Tensor& scores_TE) { return choose(scores_TE, input.bias_E, input.tokens); });
  }

 private:
  std::shared_ptr<const TokenPairs> choose(const Tensor& scores_TE, const Tensor& bias_E,
                                           const Tokens& tokens) const;

  Params params_;
};

// The choice bias as f64, 0 if there is none.
std::vector<double> bias_values(const Tensor& bias_E, Index experts) {
  std::vector<double> out(static_cast<std::size_t>(experts), 0.0);
  if (bias_E)
    dispatch_real(bias_E.dtype(), "top_p", [&](auto zero) {
      std::ranges::copy(bias_E.span<decltype(zero)>(), out.begin());
    });
  return out;
}

// Moves the best experts of a row to the front of `order` and returns how many reach p.
template <class T>
Index take_best(const T* score, const std::vector<double>& bias_E, double p, Index most,
                std::vector<std::int32_t>& order) {
  const auto key = [&](std::int32_t e) {
    const double value = static_cast<double>(score[e]) + bias_E[static_cast<std::size_t>(e)];
    return std::isnan(value) ? -std::numeric_limits<double>::infinity() : value;
  };
  const auto worse = [&](std::int32_t a, std::int32_t b) {  // of a heap with the best on top
    return key(a) != key(b) ? key(a) < key(b) : a > b;
  };
  std::iota(order.begin(), order.end(), 0);
  std::make_heap(order.begin(), order.end(), worse);
  double gathered = 0;
  Index taken = 0;
  for (auto end = order.end(); taken < most && (taken == 0 || gathered < p); ++taken) {
    std::pop_heap(order.begin(), end--, worse);
    gathered += static_cast<double>(score[*end]);
  }
  std::reverse(order.begin(), order.end());
  return taken;
}

std::shared_ptr<const TokenPairs> TopP::choose(const Tensor& scores_TE, const Tensor& bias_E,
                                               const Tokens& tokens) const {
  const Index count = tokens.count(), experts = scores_TE.size(1);
  const Index most = params_.max_k > 0 ? params_.max_k : experts;
  const std::vector<double> bias = bias_values(bias_E, experts);
  const auto valid_T = tokens.valid_T.span<std::uint8_t>();
  std::vector<std::vector<std::int32_t>> chosen_T(static_cast<std::size_t>(count));
  constexpr std::int64_t kGrain = 256;
  dispatch_real(scores_TE.dtype(), "top_p", [&](auto zero) {
    using T = decltype(zero);
    parallel_ranges(count, kGrain, [&](std::int64_t begin, std::int64_t end) {
      std::vector<std::int32_t> order(static_cast<std::size_t>(experts));
      for (Index t = begin; t < end; ++t) {
        if (valid_T[static_cast<std::size_t>(t)] == 0) continue;
        const Index taken =
            take_best(scores_TE.data<T>() + t * experts, bias, params_.p, most, order);
        chosen_T[static_cast<std::size_t>(t)].assign(order.begin(), order.begin() + taken);
      }
    });
  });
  auto pairs = std::make_shared<TokenPairs>();
  pairs->offset_T1.push_back(0);
  for (const auto& chosen : chosen_T) {
    pairs->expert_P.insert(pairs->expert_P.end(), chosen.begin(), chosen.end());
    pairs->offset_T1.push_back(static_cast<Index>(pairs->expert_P.size()));
  }
  return pairs;
}

const Register<Router, TopP> registered{"top_p", "experts until their probabilities sum to p"};

}  // namespace
}  // namespace moelab
