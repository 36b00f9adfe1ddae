#include <algorithm>

#include "core/autograd/functions.h"
#include "core/ops/convert.k.h"
#include "core/ops/router_select.k.h"

namespace moelab {
namespace {

using namespace MOELAB_KERNELS;

// The bias in the router's dtype; undefined stays undefined.
Tensor in_dtype(const Backend& backend, const Tensor& t, DType dtype) {
  if (!t || t.dtype() == dtype) return t;
  const Tensor out = backend.empty(dtype, t.shape());
  dispatch_real(t.dtype(), "router_select", [&](auto from) {
    dispatch_real(dtype, "router_select", [&](auto to) {
      convert(t.numel(), t.data<decltype(from)>(), false, out.data<decltype(to)>());
    });
  });
  return out;
}

struct Selected {
  RouterRule rule;
  Tensor logits_TE, scores_TE, valid_T, expert_P;
};

template <class Real, class Weight>
void forward(const Selected& s, const Tensor& bias_E, const std::int32_t* forced_P,
             const Tensor& weight_P) {
  RouterSelect<Real, Weight> args;
  args.tokens = s.logits_TE.size(0);
  args.experts = s.logits_TE.size(1);
  args.rule = s.rule;
  args.logits_TE = s.logits_TE.data<Real>();
  args.bias_E = bias_E ? bias_E.data<Real>() : nullptr;
  args.valid_T = s.valid_T.data<std::uint8_t>();
  args.forced_P = forced_P;
  args.expert_P = s.expert_P.data<std::int32_t>();
  args.weight_P = weight_P.data<Weight>();
  args.scores_TE = s.scores_TE.data<Real>();
  router_select_forward(args);
}

template <class Real, class Weight>
void backward(const Selected& s, const Tensor& dweight_P, const Tensor& dscores_TE, Grad dlogits) {
  RouterSelectGrad<Real, Weight> args;
  args.tokens = s.logits_TE.size(0);
  args.experts = s.logits_TE.size(1);
  args.rule = s.rule;
  args.logits_TE = s.logits_TE.data<Real>();
  args.scores_TE = s.scores_TE.data<Real>();
  args.expert_P = s.expert_P.data<std::int32_t>();
  args.valid_T = s.valid_T.data<std::uint8_t>();
  args.dweight_P = dweight_P ? dweight_P.data<Weight>() : nullptr;
  args.dscores_TE = dscores_TE ? dscores_TE.data<Real>() : nullptr;
  args.dlogits_TE = dlogits.into.data<Real>();
  args.accumulate = dlogits.accumulate;
  router_select_backward(args);
}

void check_rule(const RouterRule& rule, Index experts) {
  MOELAB_CHECK(rule.k >= 1 && rule.k <= experts, "k ", rule.k, ", experts ", experts);
  if (rule.groups <= 0) return;
  const Index size = experts / rule.groups;
  const Index top = rule.group_top > 0 ? rule.group_top : rule.k / rule.group_limit;
  MOELAB_CHECK(rule.groups <= kMaxExpertGroups && experts % rule.groups == 0 &&
                   rule.group_limit >= 1 && rule.group_limit <= rule.groups &&
                   rule.k <= rule.group_limit * size && top >= 1 && top <= size,
               "groups ", rule.groups, ", limit ", rule.group_limit, ", top ", top, ", k ", rule.k,
               ", experts ", experts);
}

}  // namespace

RouterScores router_select(Tape& tape, const Variable& logits_TE, const RouterRule& rule,
                           const Tensor& bias_E, const Tensor& valid_T,
                           const std::vector<std::int32_t>* forced_P, DType out) {
  const OpTimer timer(tape, "router_select");
  const Tensor& logits = logits_TE.value;
  const Index pairs = logits.size(0) * rule.k;
  check_rule(rule, logits.size(1));
  MOELAB_CHECK(!forced_P || static_cast<Index>(forced_P->size()) == pairs, "forced ids ",
               forced_P ? forced_P->size() : 0, ", pairs ", pairs);
  Backend& backend = tape.backend();
  Selected s{rule, logits, backend.empty_like(logits), valid_T, backend.empty(DType::i32, {pairs})};
  const Tensor weight_P = backend.empty(out, {pairs});
  const Tensor bias = in_dtype(backend, bias_E, logits.dtype());
  dispatch_real(logits.dtype(), "router_select", [&](auto real) {
    dispatch_real(out, "router_select", [&](auto weight) {
      forward<decltype(real), decltype(weight)>(s, bias, forced_P ? forced_P->data() : nullptr,
                                                weight_P);
    });
  });
  RouterScores result;
  const auto ids = s.expert_P.span<std::int32_t>();
  result.expert_P.assign(ids.begin(), ids.end());
  result.weight_P = tape.output(weight_P, {&logits_TE});
  result.scores_TE = tape.output(s.scores_TE, {&logits_TE});
  if (!result.weight_P.needs_grad()) return result;
  const GradSlot weight_slot = result.weight_P.slot(), scores_slot = result.scores_TE.slot();
  tape.step("router_select", {weight_slot, scores_slot},
            [s = std::move(s), weight_slot, scores_slot, input = logits_TE.slot()](Tape& t) {
              const Grad dlogits = t.grad_of(input);
              if (!dlogits) return;
              dispatch_real(input.dtype, "router_select", [&](auto real) {
                dispatch_real(weight_slot.dtype, "router_select", [&](auto weight) {
                  backward<decltype(real), decltype(weight)>(s, t.grad(weight_slot),
                                                             t.grad(scores_slot), dlogits);
                });
              });
            });
  return result;
}

}  // namespace moelab
