#include "core/moe/column_loss.h"

#include "core/autograd/functions.h"

namespace moelab {
namespace {

struct ColumnPart {
  Tensor slope_C;  // f64 [G·E, 1]
  double value = 0;
};

ColumnPart column_part(const Backend& backend, const Tensor& values,
                       const std::vector<std::int32_t>& cell_N, Index experts,
                       const ScopeMap& scope, Index instances_in_step,
                       const ColumnFunction& function) {
  const Index cells = scope.instances() * experts;
  const auto width = static_cast<std::size_t>(experts);
  const Tensor own = backend.zeros(DType::f64, {scope.instances(), experts});
  dispatch_real(values.dtype(), "column loss", [&](auto zero) {
    const auto* value = values.data<decltype(zero)>();
    for (std::size_t i = 0; i < cell_N.size(); ++i)
      if (cell_N[i] >= 0) own.data<double>()[cell_N[i]] += static_cast<double>(value[i]);
  });
  const Tensor all = backend.empty_like(own);
  copy(own, all);
  scope.reduce(all);
  ColumnPart part{backend.zeros(DType::f64, {cells, 1}), 0};
  std::vector<double> share_E(width);
  for (Index g = 0; g < scope.instances(); ++g) {
    const Index valid = scope.valid()[static_cast<std::size_t>(g)];
    if (valid == 0) continue;
    const std::span slope_E(part.slope_C.data<double>() + g * experts, width);
    function({all.data<double>() + g * experts, width}, valid, share_E, slope_E);
    for (std::size_t e = 0; e < width; ++e) {
      slope_E[e] /= static_cast<double>(instances_in_step);
      part.value += share_E[e] * own[g].data<double>()[e] / static_cast<double>(instances_in_step);
    }
  }
  return part;
}

}  // namespace

Variable with_value(Tape& tape, const Variable& y, double value) {
  const Tensor rest = tape.backend().empty_like(y.value);
  dispatch_real(rest.dtype(), "with_value", [&](auto zero) {
    using T = decltype(zero);
    rest.data<T>()[0] = static_cast<T>(value - static_cast<double>(y.value.data<T>()[0]));
  });
  return add(tape, y, tape.constant(rest));
}

Variable column_loss(Tape& tape, const Variable& values, std::vector<std::int32_t> cell_N,
                     Index experts, const ScopeMap& scope, Index instances_in_step,
                     const ColumnFunction& function) {
  const Index count = values.value.numel();
  MOELAB_CHECK(static_cast<Index>(cell_N.size()) == count, cell_N.size(), " cells for ", count,
               " values");
  const ColumnPart part = tape.remember([&] {
    return column_part(tape.backend(), values.value, cell_N, experts, scope, instances_in_step,
                       function);
  });
  const Variable column = reshape(tape, values, {count, 1});
  return with_value(tape, weighted_score_sum(tape, column, part.slope_C, cell_N), part.value);
}

std::vector<std::int32_t> table_cells(const ScopeMap& scope, const Tokens& tokens, Index experts) {
  std::vector<std::int32_t> cells;
  cells.reserve(static_cast<std::size_t>(tokens.count() * experts));
  for (const std::int32_t instance : scope.instance_of_valid(tokens))
    for (Index e = 0; e < experts; ++e)
      cells.push_back(instance < 0 ? -1 : static_cast<std::int32_t>(instance * experts + e));
  return cells;
}

std::vector<std::int32_t> pair_cells(const ScopeMap& scope, const RoutingPlan& plan) {
  std::vector<std::int32_t> cells;
  cells.reserve(plan.expert_P.size());
  for (Index t = 0; t < plan.tokens; ++t)
    for (Index p = plan.begin(t); p < plan.end(t); ++p) {
      const std::int32_t expert = plan.expert_P[static_cast<std::size_t>(p)];
      cells.push_back(expert < 0 ? -1
                                 : static_cast<std::int32_t>(scope.instance_of(t) * plan.experts) +
                                       expert);
    }
  return cells;
}

void squared_variation(std::span<const double> sum_E, Index, std::span<double> share_E,
                       std::span<double> slope_E) {
  const auto experts = static_cast<double>(sum_E.size());
  double mean = 0, square = 0;
  for (const double s : sum_E) {
    mean += s / experts;
    square += s * s / experts;
  }
  for (std::size_t e = 0; e < sum_E.size(); ++e) {
    const bool any = mean > 0;
    share_E[e] = any ? (sum_E[e] - mean) / (experts * mean * mean) : 0;
    slope_E[e] = any ? 2 * (sum_E[e] - square / mean) / (experts * mean * mean) : 0;
  }
}

}  // namespace moelab
