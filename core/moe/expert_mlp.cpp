#include "core/moe/expert_mlp.h"

#include "core/autograd/functions.h"

namespace moelab {

void ExpertParams::describe(ParamVisitor& v) {
  MlpParams::describe(v);
  v("weight_at", weight_at,
    "where the combine weight is multiplied: hidden, before the down projection; output, after it "
    "(saves a row of the hidden size more for each pair); input, on the expert's input (two more; "
    "Llama 4)");
}

Experts::Traits ExpertParams::traits() const {
  Experts::Traits traits;
  traits.width = width;
  traits.gated = gated();
  traits.bias = bias;
  traits.weight_at = weight_at;
  return traits;
}

std::string ExpertParams::formula() const {
  const bool two = gated();  // makes the activation known
  return str("expert(x) = down(a)", bias ? " + bias" : "", ", a = ", activation.formula(),
             two ? ", gate and up of x" : ", h = up(x)", bias ? " with biases" : "",
             weight_at == WeightAt::hidden   ? "; the weight is multiplied into a (and the bias)"
             : weight_at == WeightAt::output ? "; the weight is multiplied into the result"
                                             : "; the weight is multiplied into x");
}

Variable expert_mlp(Tape& tape, const RowView& rows, const Variable& weight_R,
                    const GroupedMlp& mlp, WeightAt at) {
  if (at == WeightAt::hidden)
    return grouped_mlp(tape, rows.source_SH, rows.row_R, rows.offset_e1, &weight_R, mlp);
  if (at == WeightAt::output)
    return scale_rows(tape,
                      grouped_mlp(tape, rows.source_SH, rows.row_R, rows.offset_e1, nullptr, mlp),
                      weight_R);
  const Variable x_RH = scale_rows(tape, gather_rows(tape, rows.source_SH, rows.row_R), weight_R);
  return grouped_mlp(tape, x_RH, nullptr, rows.offset_e1, nullptr, mlp);
}

}  // namespace moelab
