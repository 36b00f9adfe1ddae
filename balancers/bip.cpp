// Balance by integer programming: assigning tokens to experts of equal capacity has prices as its
// dual, which a few sweeps over the batch approach; a token takes the experts of largest score −
// price (Sun 2025, "Binary-integer-programming based algorithm for expert load balancing in
// mixture-of-experts models"). A batch is priced before it is routed, from the last batch's prices
// on; outside training the prices stand. T tokens, E experts.
#include <algorithm>

#include "core/moe/balancer.h"
#include "core/moe/column_order.h"
#include "core/ops/router_select.k.h"

namespace moelab {
namespace {

constexpr ScopeSpec kScope{ScopeKind::batch, 0};

class Bip final : public Balancer {
 public:
  struct Params {
    std::int64_t iterations = 4;
    void describe(ParamVisitor& v) {
      v("iterations", iterations, "sweeps of the prices over a batch before it is routed",
        between(1, 1000));
    }
    void check(const Balancer::Facts& facts, Checker& checker) const {
      if (facts.k == 0)
        checker.error("", "needs a router with a fixed number of experts a token");
      else if (facts.k >= facts.experts)
        checker.error("", "has no effect: every token goes to all ", facts.experts, " experts");
    }
    Balancer::Traits traits() const { return {.has_bias = true, .scope = kScope}; }
    std::string formula() const {
      return str(
          "bias = -q; in training, ", iterations,
          " times before a micro-batch is routed: p_t = max(0, (k+1)-th largest over experts "
          "of s_te - q_e), q_e = max(0, (k * tokens / experts + 1)-th largest over tokens of "
          "s_te - p_t), s what experts are chosen by (for logits p is not bounded); q starts "
          "from the micro-batch before, and from 0");
    }
  };
  Bip(const Params& params, const Context& context)
      : params_(params),
        backend_(context.backend),
        k_(context.k),
        price_E_(context.state.get(context.backend, "balancers." + context.label + ".price",
                                   context.dtype, {context.experts})) {}

  Tensor bias() const override { return negative(values(price_E_)); }
  bool prices() const override { return true; }

  Tensor price(const Tensor& key_TE, bool positive, const PricingInput& input) override {
    if (k_ < 1 || k_ >= key_TE.size(1)) return {};
    step_state_ = &input.step_state;
    const auto found_E = found(input.step_state).span<double>();
    const bool first = sweeps_done(input.step_state) == 0;
    std::vector<double> q_E =
        first ? values(price_E_) : std::vector<double>(found_E.begin(), found_E.end());
    const ScopeMap& scope = input.scope(kScope);
    for (Index i = 0; i < params_.iterations; ++i)
      q_E = swept(key_TE, q_E, positive, scope, input.tokens);
    std::ranges::copy(q_E, found_E.begin());
    ++sweeps_done(input.step_state);
    return negative(q_E);
  }

  void after_step(const StepLoad&) override {
    if (!step_state_ || sweeps_done(*step_state_) == 0) return;
    const auto found_E = found(*step_state_).span<double>();
    dispatch_real(price_E_.dtype(), "bip", [&](auto zero) {
      using T = decltype(zero);
      std::ranges::transform(found_E, price_E_.data<T>(), [](double q) { return T(q); });
    });
  }

 private:
  const Tensor& found(StateStore& state) const {
    return state.get(backend_, "price", DType::f64, price_E_.shape());
  }
  std::int64_t& sweeps_done(StateStore& state) const {
    return *state.get(backend_, "batches", DType::i64, {1}).data<std::int64_t>();
  }

  // One sweep: the tokens' prices from the experts', then the experts' from the tokens'.
  std::vector<double> swept(const Tensor& key_TE, const std::vector<double>& q_E, bool positive,
                            const ScopeMap& scope, const Tokens& tokens) const {
    const Index count = tokens.count(), experts = key_TE.size(1), take = k_ + 1;
    const Tensor left_TE = backend_.empty(DType::f64, key_TE.shape());  // s − q, then s − p
    auto* left = left_TE.data<double>();
    dispatch_real(key_TE.dtype(), "bip", [&](auto zero) {
      const auto* key = key_TE.data<decltype(zero)>();
      for (Index i = 0; i < left_TE.numel(); ++i)
        left[i] = static_cast<double>(key[i]) - q_E[static_cast<std::size_t>(i % experts)];
    });
    std::vector<std::int32_t> ids(static_cast<std::size_t>(count * take));
    MOELAB_KERNELS::top_k_rows(count, experts, take, left, tokens.valid_T.data<std::uint8_t>(),
                               ids.data());
    for (Index t = 0; t < count; ++t) {
      const std::int32_t lost = ids[static_cast<std::size_t>(t * take + k_)];
      if (lost < 0) continue;  // padding, which nobody reads
      const double best_lost = left[t * experts + lost];
      const double p = positive ? std::max(0.0, best_lost) : best_lost;
      for (Index e = 0; e < experts; ++e)
        left[t * experts + e] += q_E[static_cast<std::size_t>(e)] - p;
    }
    const auto valid = static_cast<double>(scope.valid().empty() ? 0 : scope.valid().front());
    const std::vector<double> rank{valid * static_cast<double>(k_) / static_cast<double>(experts)};
    const Tensor next_GE = column_at_rank(left_TE, rank, scope, tokens);
    std::vector<double> next(q_E.size());
    for (std::size_t e = 0; e < next.size(); ++e)
      next[e] = std::max(0.0, next_GE.data<double>()[e]);
    return next;
  }

  static std::vector<double> values(const Tensor& price_E) {
    return dispatch_real(price_E.dtype(), "bip", [&](auto zero) {
      const auto price = price_E.span<decltype(zero)>();
      return std::vector<double>(price.begin(), price.end());
    });
  }
  Tensor negative(const std::vector<double>& q_E) const {
    const Tensor out = backend_.empty_like(price_E_);
    dispatch_real(out.dtype(), "bip", [&](auto zero) {
      using T = decltype(zero);
      std::ranges::transform(q_E, out.data<T>(), [](double q) { return T(-q); });
    });
    return out;
  }

  Params params_;
  Backend& backend_;
  Index k_ = 0;
  Tensor& price_E_;                   // lives in the state store
  StateStore* step_state_ = nullptr;  // the layer's, once a training step has begun
};

const Register<Balancer, Bip> registered{
    "bip", "prices that even out the batch at hand before it is routed (dual of an assignment)"};

}  // namespace
}  // namespace moelab
