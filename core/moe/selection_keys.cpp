#include "core/moe/selection_keys.h"

#include <algorithm>
#include <cmath>

#include "core/base/threads.h"

namespace moelab {
namespace {

void softmax_row(double* row, Index experts) {
  const double most = *std::max_element(row, row + experts);
  double sum = 0;
  for (Index e = 0; e < experts; ++e) sum += row[e] = std::exp(row[e] - most);
  for (Index e = 0; e < experts; ++e) row[e] /= sum;
}

double softplus(double l) { return std::max(l, 0.0) + std::log1p(std::exp(-std::abs(l))); }

void score_row(double* row, Index experts, ScoreKind score) {
  if (score == ScoreKind::softmax) return softmax_row(row, experts);
  for (Index e = 0; e < experts; ++e)
    row[e] =
        score == ScoreKind::sigmoid ? 1 / (1 + std::exp(-row[e])) : std::sqrt(softplus(row[e]));
}

}  // namespace

Tensor selection_keys(const Backend& backend, const Tensor& logits_TE, const RouterRule& rule) {
  const Index experts = logits_TE.size(1);
  const Tensor key_TE = backend.empty(DType::f64, logits_TE.shape());
  auto* key = key_TE.data<double>();
  dispatch_real(logits_TE.dtype(), "selection keys", [&](auto zero) {
    const auto logit = logits_TE.span<decltype(zero)>();
    std::copy(logit.begin(), logit.end(), key);
  });
  if (!rule.key_is_logit)
    parallel_items(logits_TE.size(0),
                   [&](Index t) { score_row(key + t * experts, experts, rule.score); });
  return key_TE;
}

}  // namespace moelab
