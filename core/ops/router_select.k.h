// Scores, selection and combine weights of a router, and their gradient, a row at a time.
// T tokens, E experts, P = T·k pair slots; Real is the router's dtype, Weight the run's.
#pragma once
#include "core/backend/for_each.h"
#include "core/ops/router_rule.k.h"

namespace moelab::MOELAB_KERNELS {

template <class Real, class Weight>
struct RouterSelect {
  Index tokens = 0, experts = 0;
  RouterRule rule;
  const Real* logits_TE = nullptr;
  const Real* bias_E = nullptr;  // null: none
  const std::uint8_t* valid_T = nullptr;
  const std::int32_t* forced_P = nullptr;  // null: select
  std::int32_t* expert_P = nullptr;        // out; −1 where absent
  Weight* weight_P = nullptr;              // out
  Real* scores_TE = nullptr;               // out
};
template <class Real, class Weight>
void router_select_forward(const RouterSelect<Real, Weight>& args);

template <class Real, class Weight>
struct RouterSelectGrad {
  Index tokens = 0, experts = 0;
  RouterRule rule;
  const Real* logits_TE = nullptr;
  const Real* scores_TE = nullptr;
  const std::int32_t* expert_P = nullptr;
  const std::uint8_t* valid_T = nullptr;
  const Weight* dweight_P = nullptr;  // null: no gradient arrived
  const Real* dscores_TE = nullptr;   // null likewise
  Real* dlogits_TE = nullptr;
  bool accumulate = false;
};
template <class Real, class Weight>
void router_select_backward(const RouterSelectGrad<Real, Weight>& args);

// The k best of each valid row; −1 for the others. ids_P [rows·k].
template <class Real>
void top_k_rows(Index rows, Index width, Index k, const Real* values, const std::uint8_t* valid,
                std::int32_t* ids_P);

}  // namespace moelab::MOELAB_KERNELS
