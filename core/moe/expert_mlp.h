// What experts of the feed-forward kind share: their parameters in a recipe, and where the combine
// weight is multiplied. R rows, S source rows, H hidden, F width, e local experts.
#pragma once
#include <array>
#include <string>

#include "core/moe/experts.h"
#include "core/moe/mlp_weights.h"

namespace moelab {

template <>
struct EnumNames<WeightAt> {
  static constexpr std::array<std::pair<std::string_view, WeightAt>, 3> value{
      {{"hidden", WeightAt::hidden}, {"output", WeightAt::output}, {"input", WeightAt::input}}};
};

struct ExpertParams : MlpParams {
  WeightAt weight_at = WeightAt::hidden;
  void describe(ParamVisitor& v);
  Experts::Traits traits() const;
  std::string formula() const;
};

// y_RH: the rows' experts, weighted. `output` saves R·H elements more than `hidden`, of equal value
// but for rounding; `input` saves 2·R·H more and is another function: expert(w·x).
Variable expert_mlp(Tape&, const RowView& rows, const Variable& weight_R, const GroupedMlp& mlp,
                    WeightAt at);

}  // namespace moelab
