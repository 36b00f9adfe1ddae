#include "core/autograd/functions.h"
#include "core/ops/router_pairs.k.h"

namespace moelab {
namespace {

struct Saved {
  ScoreKind score;
  double scaling;
  Tensor logits_TE, scores_TE, valid_T;
  std::shared_ptr<const TokenPairs> pairs;
};

template <class Real, class Weight>
MOELAB_KERNELS::RouterPairs<Real, Weight> kernel_pairs(const Saved& s) {
  return {s.logits_TE.size(0), s.logits_TE.size(1),       s.score,
          s.scaling,           s.pairs->offset_T1.data(), s.pairs->expert_P.data()};
}

template <class Real, class Weight>
void backward(const Saved& s, const Tensor& dweight_P, const Tensor& dscores_TE, Grad dlogits) {
  MOELAB_KERNELS::RouterPairsGrad<Real, Weight> grad;
  grad.logits_TE = s.logits_TE.data<Real>();
  grad.scores_TE = s.scores_TE.data<Real>();
  grad.valid_T = s.valid_T.data<std::uint8_t>();
  grad.dweight_P = dweight_P ? dweight_P.data<Weight>() : nullptr;
  grad.dscores_TE = dscores_TE ? dscores_TE.data<Real>() : nullptr;
  grad.dlogits_TE = dlogits.into.data<Real>();
  grad.accumulate = dlogits.accumulate;
  MOELAB_KERNELS::router_pairs_backward(kernel_pairs<Real, Weight>(s), grad);
}

void check_pairs(const TokenPairs& pairs, Index tokens, Index experts) {
  MOELAB_CHECK(static_cast<Index>(pairs.offset_T1.size()) == tokens + 1 &&
                   pairs.offset_T1.back() == static_cast<Index>(pairs.expert_P.size()),
               "pairs of ", pairs.offset_T1.size(), " - 1 tokens, ", tokens, " tokens");
  for (const std::int32_t e : pairs.expert_P)
    MOELAB_CHECK(e >= -1 && e < experts, "expert ", e, " of ", experts);
}

}  // namespace

PairScores router_pairs(Tape& tape, const Variable& logits_TE, ScoreKind score, double scaling,
                        const Tensor& valid_T, const ChoosePairs& choose, DType out) {
  const OpTimer timer(tape, "router_pairs");
  const Tensor& logits = logits_TE.value;
  const Index tokens = logits.size(0), experts = logits.size(1);
  const Backend& backend = tape.backend();
  Saved s{score, scaling, logits, backend.empty_like(logits), valid_T, nullptr};
  PairScores result;
  dispatch_real(logits.dtype(), "router_pairs", [&](auto real) {
    using Real = decltype(real);
    const Tensor total_T = backend.empty(logits.dtype(), {tokens});
    MOELAB_KERNELS::raw_score_rows(tokens, experts, score, logits.data<Real>(),
                                   valid_T.data<std::uint8_t>(), s.scores_TE.data<Real>(),
                                   total_T.data<Real>());
    s.pairs = choose(s.scores_TE);
    check_pairs(*s.pairs, tokens, experts);
    const Tensor weight_P = backend.empty(out, {static_cast<Index>(s.pairs->expert_P.size())});
    dispatch_real(out, "router_pairs", [&](auto weight) {
      using Weight = decltype(weight);
      MOELAB_KERNELS::router_pairs_forward(kernel_pairs<Real, Weight>(s), total_T.data<Real>(),
                                           s.scores_TE.data<Real>(), weight_P.data<Weight>());
    });
    result.weight_P = tape.output(weight_P, {&logits_TE});
  });
  result.scores_TE = tape.output(s.scores_TE, {&logits_TE});
  result.pairs = s.pairs;
  if (!result.weight_P.needs_grad()) return result;
  const GradSlot weight_slot = result.weight_P.slot(), scores_slot = result.scores_TE.slot();
  tape.step("router_pairs", {weight_slot, scores_slot},
            [s = std::move(s), weight_slot, scores_slot, input = logits_TE.slot()](Tape& t) {
              const Grad dlogits = t.grad_of(input);
              if (!dlogits) return;
              dispatch_real(input.dtype, "router_pairs", [&](auto real) {
                dispatch_real(weight_slot.dtype, "router_pairs", [&](auto weight) {
                  backward<decltype(real), decltype(weight)>(s, t.grad(weight_slot),
                                                             t.grad(scores_slot), dlogits);
                });
              });
            });
  return result;
}

}  // namespace moelab
