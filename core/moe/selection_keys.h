// What a rule chooses experts by, before any choice bias. T tokens, E experts.
#pragma once
#include "core/backend/backend.h"
#include "core/ops/router_rule.k.h"

namespace moelab {

// f64 [T, E]: logits, or scores that are not divided by their sum over all experts (softmax is).
Tensor selection_keys(const Backend& backend, const Tensor& logits_TE, const RouterRule& rule);

}  // namespace moelab
