// Cosine routing in a narrow space (X-MoE, Chi et al. 2022): tokens are projected, and experts are
// directions there, so that routing cannot pull hidden states towards expert vectors; the
// temperature is trained. T tokens, H hidden, E experts, D routing width.
#include <cmath>

#include "core/moe/selection.h"

namespace moelab {
namespace {

enum class CosineScore : std::uint8_t { softmax, sigmoid };

}  // namespace

template <>
struct EnumNames<CosineScore> {
  static constexpr std::array<std::pair<std::string_view, CosineScore>, 2> value{
      {{"softmax", CosineScore::softmax}, {"sigmoid", CosineScore::sigmoid}}};
};

namespace {

constexpr double kTinySquare = 1e-12;  // added to squared norms

class Cosine final : public GatedRouter {
 public:
  struct Params : OwnScoreParams {
    CosineScore score = CosineScore::softmax;
    std::int64_t width = 0;
    double temperature = 0.3, temperature_min = 0.01;
    void describe(ParamVisitor& v) {
      OwnScoreParams::describe(v);
      v("score", score, "what turns the logits into scores; softmax is over all experts");
      v("width", width, "of the space in which tokens meet experts; 0: half the number of experts",
        at_least(0));
      v("temperature", temperature,
        "initial temperature, trained from there (published: 0.3 for softmax, 0.07 for sigmoid)",
        greater_than(0));
      v("temperature_min", temperature_min, "the temperature falls no lower", greater_than(0));
    }
    void check(const Facts& facts, Checker& checker) const {
      OwnScoreParams::check(facts, checker);
      if (bias) checker.error("bias", "has no place in a cosine; remove it");
      if (gating_residual) checker.error("gating_residual", "has no place in a cosine; remove it");
      if (temperature < temperature_min)
        checker.error("temperature", "is below temperature_min = ", exact(temperature_min));
    }
    Traits traits() const {
      Traits traits = OwnScoreParams::traits();
      traits.has_gate = false;  // its rows are dimensions, not experts
      traits.parameters = [*this](Index hidden, Index experts) {
        return width_for(experts) * (hidden + experts) + 1;
      };
      return traits;
    }
    RouterRule rule() const {
      return rule_for(score == CosineScore::softmax ? ScoreKind::softmax : ScoreKind::sigmoid);
    }
    Index width_for(Index experts) const {
      return width > 0 ? width : std::max<Index>(1, experts / 2);
    }
    std::string formula() const {
      return formula_for(str(score == CosineScore::softmax ? "softmax" : "sigmoid",
                             "(cos(l, m) / temperature), ", width > 0 ? str(width) : "experts / 2",
                             " dimensions, temperature trained from ", exact(temperature)));
    }
  };
  Cosine(const Params& params, const Context& context)
      : GatedRouter(params, projection(params, context)),
        rule_(params.rule()),
        base_(1 / params.temperature),
        most_(1 / params.temperature_min) {
    const Index width = params.width_for(context.experts);
    embedding_ED_ =
        make_parameter(context.backend, context.dtype, context.name + ".embedding",
                       {context.experts, width}, {Init::Kind::normal, context.init_std}, false);
    coldness_1_ = make_parameter(context.backend, context.dtype, context.name + ".coldness", {1},
                                 {Init::Kind::zeros, 0}, false);
  }

  Routing route(Tape& tape, const RouterInput& input) override {
    const Variable token_TD = unit(tape, logits(tape, input));
    const Variable expert_ED = unit(tape, tape.leaf(embedding_ED_));
    const Variable cosine_TE = gating(tape, token_TD, expert_ED, nullptr, token_TD.value.dtype());
    const Variable logits_TE = scale_exp(tape, cosine_TE, tape.leaf(coldness_1_), base_, most_);
    return route_top_k(tape, input, logits_TE, rule_, input.bias_E);
  }
  void parameters(const std::function<void(Parameter&)>& visit) override {
    GatedRouter::parameters(visit);
    visit(embedding_ED_);
    visit(coldness_1_);
  }
  Parameter* gate() override { return nullptr; }  // its rows are dimensions, not experts

 private:
  // The gate projects to D numbers instead of scoring E experts.
  static Context projection(const Params& params, Context context) {
    context.experts = params.width_for(context.experts);
    return context;
  }
  // Rows of length 1: x / sqrt(Σ x² + tiny) is a mean-square norm whose weight is 1/√D.
  static Variable unit(Tape& tape, const Variable& x) {
    const Index width = x.value.size(1);
    const Tensor weight_D = tape.backend().empty(x.value.dtype(), {width});
    dispatch_real(x.value.dtype(), "cosine", [&](auto zero) {
      using T = decltype(zero);
      for (T& w : weight_D.span<T>()) w = static_cast<T>(1 / std::sqrt(static_cast<double>(width)));
    });
    return rms_norm(tape, x, tape.constant(weight_D), kTinySquare / static_cast<double>(width));
  }

  RouterRule rule_;
  double base_, most_;
  Parameter embedding_ED_;
  Parameter coldness_1_;  // log(initial temperature / temperature)
};

const Register<Router, Cosine> registered{"cosine",
                                          "cosine of a projected token with expert directions"};

}  // namespace
}  // namespace moelab
