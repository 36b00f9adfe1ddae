// Entropy of the router's scores. Of each token: lowered, so that a token is sure of few experts
// (Huang et al. 2024, "Harder tasks need more experts", the loss beside top-p routing). Of their
// mean: raised to its most, so that all experts are used (Mod-Squad, Chen et al. 2023, the marginal
// part of its mutual information). T tokens, E experts.
#include <algorithm>
#include <cmath>

#include "core/autograd/functions.h"
#include "core/moe/column_loss.h"

namespace moelab {
namespace {

enum class EntropyOf : std::uint8_t { token, marginal };

}  // namespace

template <>
struct EnumNames<EntropyOf> {
  static constexpr std::array<std::pair<std::string_view, EntropyOf>, 2> value{
      {{"token", EntropyOf::token}, {"marginal", EntropyOf::marginal}}};
};

namespace {

constexpr double kLeast = 1e-300;  // below this a score counts as this, so that the log is finite

// V = log E − H(P), P = S / tokens.
void missing_entropy(std::span<const double> sum_E, Index valid, std::span<double> share_E,
                     std::span<double> slope_E) {
  const auto tokens = static_cast<double>(valid);
  const double most = std::log(static_cast<double>(sum_E.size()));
  for (std::size_t e = 0; e < sum_E.size(); ++e) {
    const double log_p = std::log(std::max(kLeast, sum_E[e] / tokens));
    share_E[e] = (log_p + most) / tokens;
    slope_E[e] = (log_p + 1) / tokens;
  }
}

class Entropy final : public Balancer {
 public:
  struct Params {
    double coefficient = 1e-4;
    EntropyOf of = EntropyOf::token;
    ScopeParams scope;
    void describe(ParamVisitor& v) {
      v("coefficient", coefficient, "weight of the loss in the objective", at_least(0));
      v("of", of,
        "token: the mean entropy of a token's scores, lowered; marginal: what the entropy of the "
        "mean scores lacks to log(experts)");
      scope.describe(v);
    }
    void check(const Balancer::Facts& facts, Checker& checker) const {
      scope.check(facts.rows_per_micro_batch, checker);
    }
    Balancer::Traits traits() const { return {.has_loss = true, .scope = scope.spec()}; }
    std::string formula() const {
      const char* what = of == EntropyOf::token
                             ? "L = mean of -sum over experts s_i * log(s_i)"
                             : "L = log(experts) + sum over experts P_i * log(P_i), P = mean score";
      return str(what, ", over the valid tokens of ", scope.text(), "; ",
                 of == EntropyOf::token ? "0 when tokens are certain" : "0 at perfect balance",
                 "; objective + ", exact(coefficient), " * L");
    }
  };
  Entropy(const Params& params, const Context& context) : params_(params), label_(context.label) {}

  std::optional<LossTerm> loss(Tape& tape, const BalancerInput& input) override {
    const ScopeSpec spec = params_.scope.spec();
    const ScopeMap& scope = input.scope(spec);
    const Variable& scores_TE = input.routing.scores_TE;
    const Index experts = scores_TE.value.size(1);
    LossTerm term;
    term.name = label_;
    term.layer = input.layer;
    term.value =
        params_.of == EntropyOf::marginal
            ? column_loss(tape, scores_TE, table_cells(scope, input.tokens, experts), experts,
                          scope, input.instances_in_step(spec), missing_entropy)
            : token_entropy(tape, scores_TE, scope, input.tokens, input.instances_in_step(spec));
    term.coefficient = params_.coefficient;
    term.replicated = false;
    return term;
  }

 private:
  // Σ_t −Σ s log s / (valid tokens of t's instance · instances of the step).
  static Variable token_entropy(Tape& tape, const Variable& scores_TE, const ScopeMap& scope,
                                const Tokens& tokens, Index instances_in_step) {
    const Index experts = scores_TE.value.size(1);
    std::vector<std::int32_t> row_T = scope.instance_of_valid(tokens);
    const Tensor slope_TE = tape.backend().zeros(DType::f64, scores_TE.value.shape());
    double value = 0;
    dispatch_real(scores_TE.value.dtype(), "entropy", [&](auto zero) {
      const auto* score = scores_TE.value.data<decltype(zero)>();
      for (std::size_t t = 0; t < row_T.size(); ++t) {
        if (row_T[t] < 0) continue;
        const Index valid = scope.valid()[static_cast<std::size_t>(row_T[t])];
        const double weight = 1.0 / static_cast<double>(valid * instances_in_step);
        row_T[t] = static_cast<std::int32_t>(t);
        for (Index i = static_cast<Index>(t) * experts; i < static_cast<Index>(t + 1) * experts;
             ++i) {
          const auto s = static_cast<double>(score[i]);
          const double log_s = std::log(std::max(kLeast, s));
          slope_TE.data<double>()[i] = -weight * (log_s + 1);
          value -= weight * s * log_s;
        }
      }
    });
    return with_value(tape, weighted_score_sum(tape, scores_TE, slope_TE, row_T), value);
  }

  Params params_;
  std::string label_;
};

const Register<Balancer, Entropy> registered{
    "entropy", "entropy of the scores: a token's lowered, or their mean's raised"};

}  // namespace
}  // namespace moelab
