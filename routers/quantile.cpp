// Quantile balancing (Megatron Core): experts have prices, and a token takes the k with the largest
// logit − price. A step's prices are what would have made every expert's load even: the quantile of
// how much more its tokens value it than the first expert that they did not take. T tokens, E
// experts, G scope instances.
#include <numeric>

#include "core/moe/column_order.h"
#include "core/moe/selection.h"
#include "core/ops/router_select.k.h"

namespace moelab {
namespace {

enum class QuantileScore : std::uint8_t { softmax, sigmoid, sqrtsoftplus };

}  // namespace

template <>
struct EnumNames<QuantileScore> {
  static constexpr std::array<std::pair<std::string_view, QuantileScore>, 3> value{
      {{"softmax", QuantileScore::softmax},
       {"sigmoid", QuantileScore::sigmoid},
       {"sqrtsoftplus", QuantileScore::sqrtsoftplus}}};
};

namespace {

constexpr const char* kSum = "price_sum";
constexpr const char* kCount = "price_count";

class Quantile final : public GatedRouter {
 public:
  struct Params : GateParams {
    std::int64_t k = 2;
    QuantileScore score = QuantileScore::softmax;
    bool normalize = true;
    double scaling = 1.0;
    double ema = 0.0;
    ScopeParams scope;
    void describe(ParamVisitor& v) {
      v("k", k, "experts chosen per token", at_least(1));
      v("score", score, "what combine weights are made of");
      v("normalize", normalize, "divide the chosen scores by their sum (unless k = 1)");
      v("scaling", scaling, "factor on the combine weights", greater_than(0));
      v("ema", ema, "share of its old price that an expert keeps in a step", from_below(0, 1));
      scope.describe(v);
      GateParams::describe(v);
    }
    void check(const Router::Facts& facts, Checker& checker) const {
      scope.check(facts.rows_per_micro_batch, checker);
      if (k >= facts.experts)
        checker.error("k", "must be less than the layer's ", facts.experts,
                      " experts: prices compare with the best expert that was not chosen");
      if (facts.has_choice_bias)
        checker.error("", "has prices of its own, against which a choice bias would work; remove ",
                      "the balancer that adds one");
      if (k == 1 && score == QuantileScore::softmax && normalize)
        checker.warning("normalize", "makes every combine weight ", exact(scaling),
                        " at k = 1, so that no gradient reaches the router; set it to false");
    }
    Router::Traits traits() const {
      Router::Traits traits = GateParams::traits();
      traits.k = k;
      traits.scope = scope.spec();
      return traits;
    }
    RouterRule rule() const {
      RouterRule rule;
      rule.k = k;
      rule.scaling = scaling;
      rule.key_is_logit = true;
      rule.score = score == QuantileScore::softmax   ? ScoreKind::softmax
                   : score == QuantileScore::sigmoid ? ScoreKind::sigmoid
                                                     : ScoreKind::sqrtsoftplus;
      if (score == QuantileScore::softmax)
        rule.weights = normalize ? WeightRule::softmax_chosen : WeightRule::softmax_all;
      else
        rule.weights = normalize ? WeightRule::normalized : WeightRule::raw;
      return rule;
    }
    std::string formula() const {
      return str("logits l = ", logits_text(), "; choose the ", k,
                 " experts with the largest l - price; weights ", "w_i = ", enum_name(score),
                 "(l)_i", normalize ? " / sum over the chosen" : "",
                 scaling == 1.0 ? "" : " * " + exact(scaling),
                 "; after a step price_e = ", exact(ema), " * price_e + ", exact(1 - ema),
                 " * mean over its micro-batches of the value that tokens * k / experts of l_te - ",
                 "a_t exceed, a_t the best l - price not chosen, over ", scope.text(),
                 "; then the mean price is subtracted");
    }
  };
  Quantile(const Params& params, const Context& context)
      : GatedRouter(params, context),
        params_(params),
        rule_(params.rule()),
        backend_(context.backend),
        price_E_(
            context.state.get(context.backend, "gate.price", context.dtype, {context.experts})) {}

  Routing route(Tape& tape, const RouterInput& input) override {
    const Variable logits_TE = logits(tape, input);
    if (input.moment.phase == Phase::train && input.step_state != nullptr)
      tape.remember([&] {
        add_prices(logits_TE.value, input);
        return true;
      });
    return route_top_k(tape, input, logits_TE, rule_, negative_price());
  }

  void after_step(const StepLoad&) override {
    if (step_state_ == nullptr) return;  // no training step yet
    const auto sum = step_sum(*step_state_).span<double>();
    const double count = step_count(*step_state_).data<double>()[0];
    if (count == 0) return;
    dispatch_real(price_E_.dtype(), "quantile", [&](auto zero) {
      using T = decltype(zero);
      const auto price = price_E_.span<T>();
      std::vector<double> next(price.size());
      for (std::size_t e = 0; e < next.size(); ++e)
        next[e] =
            params_.ema * static_cast<double>(price[e]) + (1 - params_.ema) * (sum[e] / count);
      const double mean =
          std::accumulate(next.begin(), next.end(), 0.0) / static_cast<double>(next.size());
      for (std::size_t e = 0; e < next.size(); ++e) price[e] = static_cast<T>(next[e] - mean);
    });
  }

 private:
  const Tensor& step_sum(StateStore& state) const {
    return state.get(backend_, kSum, DType::f64, {experts()});
  }
  const Tensor& step_count(StateStore& state) const {
    return state.get(backend_, kCount, DType::f64, {1});
  }

  Tensor negative_price() const {
    const Tensor out = backend_.empty_like(price_E_);
    dispatch_real(out.dtype(), "quantile", [&](auto zero) {
      using T = decltype(zero);
      std::ranges::transform(price_E_.span<T>(), out.data<T>(), [](T price) { return -price; });
    });
    return out;
  }

  std::vector<double> prices() const {
    return dispatch_real(price_E_.dtype(), "quantile", [&](auto zero) {
      const auto price = price_E_.span<decltype(zero)>();
      return std::vector<double>(price.begin(), price.end());
    });
  }

  // l − a [T, E] in f64, a being a token's largest l − price beyond the k that it takes.
  Tensor advantage(const Tensor& logits_TE, const Tokens& tokens) const {
    const Tensor key_TE = backend_.empty(DType::f64, logits_TE.shape());
    const Tensor out_TE = backend_.empty(DType::f64, logits_TE.shape());
    const Index count = tokens.count(), take = params_.k + 1;
    std::vector<std::int32_t> ids(static_cast<std::size_t>(count * take));
    const std::vector<double> price_E = prices();
    dispatch_real(logits_TE.dtype(), "quantile", [&](auto zero) {
      using T = decltype(zero);
      const T* l = logits_TE.data<T>();
      for (Index i = 0; i < key_TE.numel(); ++i)
        key_TE.data<double>()[i] =
            static_cast<double>(l[i]) - price_E[static_cast<std::size_t>(i % experts())];
      MOELAB_KERNELS::top_k_rows(count, experts(), take, key_TE.data<double>(),
                                 tokens.valid_T.data<std::uint8_t>(), ids.data());
      for (Index t = 0; t < count; ++t) {
        const std::int32_t first_lost = ids[static_cast<std::size_t>(t * take + params_.k)];
        if (first_lost < 0) continue;  // padding, which nobody reads
        const double a = key_TE.data<double>()[t * experts() + first_lost];
        for (Index i = t * experts(); i < (t + 1) * experts(); ++i)
          out_TE.data<double>()[i] = static_cast<double>(l[i]) - a;
      }
    });
    return out_TE;
  }

  // Adds the prices that this micro-batch asks for to the step's. Every rank adds the same: each
  // instance is brought in by the rank that holds its first row.
  void add_prices(const Tensor& logits_TE, const RouterInput& input) {
    const ScopeMap& scope = input.scope(params_.scope.spec());
    std::vector<double> rank_G;
    for (const Index valid : scope.valid())
      rank_G.push_back(static_cast<double>(valid * params_.k) / static_cast<double>(experts()));
    const Tensor asked_GE =
        column_at_rank(advantage(logits_TE, input.tokens), rank_G, scope, input.tokens);
    const Tensor own = backend_.zeros(DType::f64, {experts() + 1});  // sums and the count
    auto* sum = own.data<double>();
    const Index rows = input.tokens.rows_global / std::max<Index>(1, scope.global_instances());
    for (Index g = 0; g < scope.instances(); ++g) {
      if (scope.valid()[static_cast<std::size_t>(g)] == 0) continue;
      if ((scope.first_instance() + g) * rows < input.tokens.first_row) continue;
      for (Index e = 0; e < experts(); ++e) sum[e] += asked_GE.data<double>()[g * experts() + e];
      sum[experts()] += 1;
    }
    if (input.dp) input.dp->all_reduce(own).wait();
    step_state_ = input.step_state;
    auto* into = step_sum(*step_state_).data<double>();
    for (Index e = 0; e < experts(); ++e) into[e] += sum[e];
    step_count(*step_state_).data<double>()[0] += sum[experts()];
  }

  Params params_;
  RouterRule rule_;
  Backend& backend_;
  Tensor& price_E_;                   // lives in the state store
  StateStore* step_state_ = nullptr;  // the layer's, once a training step has begun
};

const Register<Router, Quantile> registered{
    "quantile", "top-k at prices that make the experts' loads even (quantile balancing)"};

}  // namespace
}  // namespace moelab
