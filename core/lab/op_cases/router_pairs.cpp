#include "core/autograd/functions.h"
#include "core/lab/op_case.h"

namespace moelab {
namespace {

// T tokens, E experts. Inputs: logits, valid mask. A third of the entries are pairs, and every
// fifth token has none.
OpInstance instance(OpSize size, ScoreKind score, bool widen) {
  const bool small = size == OpSize::small;
  const Index tokens = small ? 13 : 8192, experts = small ? 12 : 64;
  const auto pairs = std::make_shared<TokenPairs>();
  pairs->offset_T1.push_back(0);
  for (Index t = 0; t < tokens; ++t) {
    for (Index e = experts - 1; e >= 0 && t % 5 != 3; --e)
      if ((t + e) % 3 == 0)
        pairs->expert_P.push_back((t + e) % 9 == 0 ? -1 : static_cast<std::int32_t>(e));
    pairs->offset_T1.push_back(static_cast<Index>(pairs->expert_P.size()));
  }
  OpInstance c;
  c.inputs = {OpInput::real({tokens, experts}, -3, 3),
              OpInput::integers(DType::u8, {tokens}, 0, 1)};
  c.build = [=](Tape& t, const std::vector<Variable>& in) {
    const PairScores s = router_pairs(
        t, in[0], score, 1.5, in[1].value, [&](const Tensor&) { return pairs; },
        widen ? DType::f64 : in[0].value.dtype());
    return std::vector<Variable>{s.weight_P, s.scores_TE};
  };
  const auto elements = static_cast<double>(tokens * experts);
  c.forward = {.flops = 20 * elements, .bytes = 8 * elements};
  c.backward = {.flops = 10 * elements, .bytes = 16 * elements};
  return c;
}

RegisterOpCase make(const char* name, ScoreKind score, bool widen = false) {
  return {name, [=](OpSize size) { return instance(size, score, widen); }};
}

const RegisterOpCase cases[] = {
    make("router_pairs_softmax", ScoreKind::softmax),
    make("router_pairs_sigmoid", ScoreKind::sigmoid, true),
    make("router_pairs_sqrtsoftplus", ScoreKind::sqrtsoftplus),
    make("router_pairs_relu", ScoreKind::relu),
};

}  // namespace
}  // namespace moelab
