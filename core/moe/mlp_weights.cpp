#include "core/moe/mlp_weights.h"

namespace moelab {

void MlpParams::describe(ParamVisitor& v) {
  v("width", width, "F, the width between the up and the down projection", at_least(1));
  v("activation", activation, "the non-linearity between the projections");
  v("bias", bias, "both projections add a bias");
}

std::string MlpParams::network_text() const {
  const bool two = gated();  // makes the activation known
  return str("down(", activation.formula(), ")", two ? "" : ", h = up(x)");
}

LayerCost mlp_cost(const MlpParams& params, Index hidden) {
  const Index up = (params.gated() ? 2 : 1) * params.width;
  const Index weights = up * hidden + params.width * hidden;
  return LayerCost::dense(weights + (params.bias ? up + hidden : 0), weights,
                          static_cast<double>(up));
}

namespace {

// One fused parameter [e, rows, columns] (or [e, rows]: a bias). Each network's slice is cut into
// `parts` pieces of equal height.
Parameter fused(const MlpWeights::Spec& spec, const std::string& whole,
                const std::vector<std::string>& parts, Index rows, Index columns, double std) {
  const bool bias = columns == 0;
  const std::string suffix = bias ? ".bias" : ".weight";
  Parameter p = make_parameter(spec.backend, spec.dtype, str(spec.name, ".", whole, suffix),
                               bias ? Shape{spec.count, rows} : Shape{spec.count, rows, columns},
                               bias ? Init{Init::Kind::zeros, 0} : Init{Init::Kind::normal, std},
                               !bias, spec.placement);
  p.pieces.clear();
  const Index height = rows / static_cast<Index>(parts.size());
  for (Index i = 0; i < spec.count; ++i)
    for (std::size_t part = 0; part < parts.size(); ++part) {
      const std::string expert =
          spec.placement == Placement::expert ? str(".", spec.first + i) : std::string();
      p.pieces.push_back({str(spec.name, expert, ".", parts[part], suffix),
                          p.value[i].rows(static_cast<Index>(part) * height, height)});
    }
  return p;
}

}  // namespace

MlpWeights::MlpWeights(const MlpParams& params, const Spec& spec) : gated_(params.gated()) {
  const std::string whole = gated_ ? "gate_up_proj" : "up_proj";
  const std::vector<std::string> parts = gated_ ? std::vector<std::string>{"gate_proj", "up_proj"}
                                                : std::vector<std::string>{"up_proj"};
  const Index up_rows = (gated_ ? 2 : 1) * params.width;
  up_ = fused(spec, whole, parts, up_rows, spec.hidden, spec.init_std);
  down_ = fused(spec, "down_proj", {"down_proj"}, spec.hidden, params.width, spec.output_init_std);
  if (!params.bias) return;
  up_bias_ = fused(spec, whole, parts, up_rows, 0, 0);
  down_bias_ = fused(spec, "down_proj", {"down_proj"}, spec.hidden, 0, 0);
}

GroupedMlp MlpWeights::on(Tape& tape, const Activation& activation) {
  GroupedMlp mlp;
  mlp.up_eGH = tape.leaf(up_);
  mlp.down_eHF = tape.leaf(down_);
  if (up_bias_.value) {
    mlp.up_bias_eG = tape.leaf(up_bias_);
    mlp.down_bias_eH = tape.leaf(down_bias_);
  }
  mlp.activation = &activation;
  mlp.gated = gated_;
  return mlp;
}

void MlpWeights::parameters(const std::function<void(Parameter&)>& visit) {
  visit(up_);
  visit(down_);
  if (!up_bias_.value) return;
  visit(up_bias_);
  visit(down_bias_);
}

}  // namespace moelab
