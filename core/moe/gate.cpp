#include "core/moe/gate.h"

#include "core/moe/noise.h"
#include "core/ops/jitter.k.h"

namespace moelab {
namespace {

constexpr std::string_view kJitterStream = "router/jitter";

DType compute_dtype(GateDType gate, DType run) {
  if (gate == GateDType::f32) return DType::f32;
  if (gate == GateDType::f64) return DType::f64;
  return run;
}

// Element (t, h) is drawn at global id · H + h; a rank's tokens follow one another.
void draw_jitter(const Rng& rng, double eps, const Tokens& tokens, const Tensor& noise_TH) {
  const auto first = static_cast<std::uint64_t>(tokens.global_id(0) * noise_TH.size(1));
  dispatch_real(noise_TH.dtype(), "jitter", [&](auto zero) {
    MOELAB_KERNELS::draw_jitter(noise_TH.numel(), eps, rng.key(), rng.salt(), first,
                                noise_TH.data<decltype(zero)>());
  });
}

}  // namespace

void GateParams::describe(ParamVisitor& v) {
  v("jitter", jitter,
    "relative noise on the router's input while training: each element times U(1-jitter, 1+jitter)",
    from_below(0, 1));
  v("dtype", dtype, "precision of logits, scores and selection; input: the run's");
  v("bias", bias, "add a trained bias to the logits");
  v("gating_residual", gating_residual,
    "add R l of the logits l of the MoE layer before, R a trained matrix that starts at 0 (MoE++); "
    "the first MoE layer has none to add");
}

Router::Traits GateParams::traits() const {
  Router::Traits traits;
  traits.stochastic = jitter > 0;
  traits.gate_bias = bias;
  traits.reads_previous_logits = gating_residual;
  if (jitter > 0) traits.train_inference_gap.push_back("input jitter is drawn in training only");
  return traits;
}

std::string GateParams::logits_text() const {
  return gating_residual ? "W x + R l_previous" : "W x";
}

GatedRouter::GatedRouter(const GateParams& params, const Context& context)
    : params_(params),
      noise_name_(context.name + ".jitter"),
      experts_(context.experts),
      compute_(compute_dtype(params.dtype, context.dtype)) {
  const Init normal{Init::Kind::normal, context.init_std};
  weight_EH_ = make_parameter(context.backend, context.dtype, context.name + ".weight",
                              {context.experts, context.hidden}, normal, true);
  if (params.bias)
    bias_E_ = make_parameter(context.backend, context.dtype, context.name + ".bias",
                             {context.experts}, {Init::Kind::zeros, 0}, false);
  if (params.gating_residual)
    residual_EE_ = make_parameter(context.backend, context.dtype, context.name + ".residual.weight",
                                  {context.experts, context.experts}, {Init::Kind::zeros, 0}, true);
}

Variable GatedRouter::jittered(Tape& tape, const RouterInput& input) const {
  if (params_.jitter <= 0) return input.x_TH;
  const Tensor noise_TH = tape.backend().empty_like(input.x_TH.value);
  const bool replayed = input.noise && *input.noise && (*input.noise)(noise_name_, noise_TH);
  if (!replayed && input.moment.phase != Phase::train) return input.x_TH;
  if (!replayed) {
    const Rng rng(input.moment.seed, kJitterStream, noise_salt(input.moment, input.layer));
    draw_jitter(rng, params_.jitter, input.tokens, noise_TH);
  }
  return multiply(tape, input.x_TH, noise_TH);
}

Variable GatedRouter::logits(Tape& tape, const RouterInput& input) {
  const Variable weight = tape.leaf(weight_EH_);
  const Variable bias = params_.bias ? tape.leaf(bias_E_) : Variable{};
  const Variable l_TE =
      gating(tape, jittered(tape, input), weight, params_.bias ? &bias : nullptr, compute_);
  if (!params_.gating_residual || !input.previous_logits_TE) return l_TE;
  return add(tape, l_TE,
             gating(tape, input.previous_logits_TE, tape.leaf(residual_EE_), nullptr, compute_));
}

void GatedRouter::parameters(const std::function<void(Parameter&)>& visit) {
  visit(weight_EH_);
  if (params_.bias) visit(bias_E_);
  if (params_.gating_residual) visit(residual_EE_);
}

}  // namespace moelab
