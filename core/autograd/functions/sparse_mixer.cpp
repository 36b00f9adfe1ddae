#include "core/ops/sparse_mixer.k.h"

#include "core/autograd/functions.h"
#include "core/ops/convert.k.h"

namespace moelab {
namespace {

using namespace MOELAB_KERNELS;

struct Mixed {
  SparseMixerRule rule;
  Tensor logits_TE, valid_T, expert_P;
};

template <class Real, class Weight>
void forward(const Mixed& m, const SparseMixerInput& in, const Tensor& weight_P) {
  SparseMixer<Real, Weight> args;
  args.tokens = m.logits_TE.size(0);
  args.experts = m.logits_TE.size(1);
  args.k = m.rule.k;
  args.band = static_cast<Real>(2 * m.rule.epsilon);
  args.scaling = static_cast<Real>(m.rule.scaling);
  args.logits_TE = m.logits_TE.data<Real>();
  std::vector<Real> bias_E(in.bias_E ? static_cast<std::size_t>(args.experts) : 0);
  if (in.bias_E)
    dispatch_real(in.bias_E.dtype(), "sparse_mixer", [&](auto from) {
      convert(args.experts, in.bias_E.data<decltype(from)>(), false, bias_E.data());
    });
  args.bias_E = in.bias_E ? bias_E.data() : nullptr;
  args.valid_T = m.valid_T.data<std::uint8_t>();
  args.forced_P = in.forced_P ? in.forced_P->data() : nullptr;
  args.gumbel_PE = in.gumbel_PE ? in.gumbel_PE.data<double>() : nullptr;
  args.uniform_P = in.uniform_P ? in.uniform_P.data<double>() : nullptr;
  args.expert_P = m.expert_P.data<std::int32_t>();
  args.weight_P = weight_P.data<Weight>();
  sparse_mixer_forward(args);
}

template <class Real, class Weight>
void backward(const Mixed& m, const Tensor& dweight_P, Grad dlogits) {
  SparseMixerGrad<Real, Weight> args;
  args.tokens = m.logits_TE.size(0);
  args.experts = m.logits_TE.size(1);
  args.k = m.rule.k;
  args.band = static_cast<Real>(2 * m.rule.epsilon);
  args.scaling = static_cast<Real>(m.rule.scaling);
  args.logits_TE = m.logits_TE.data<Real>();
  args.expert_P = m.expert_P.data<std::int32_t>();
  args.dweight_P = dweight_P.data<Weight>();
  args.dlogits_TE = dlogits.into.data<Real>();
  args.accumulate = dlogits.accumulate;
  sparse_mixer_backward(args);
}

}  // namespace

SparseMixerChoice sparse_mixer(Tape& tape, const Variable& logits_TE, const SparseMixerRule& rule,
                               const SparseMixerInput& in, DType out) {
  const OpTimer timer(tape, "sparse_mixer");
  const Tensor& logits = logits_TE.value;
  const Index experts = logits.size(1), pairs = logits.size(0) * rule.k;
  MOELAB_CHECK(rule.k >= 1 && rule.k <= experts, "k ", rule.k, ", experts ", experts);
  MOELAB_CHECK(!in.forced_P || static_cast<Index>(in.forced_P->size()) == pairs, "forced ids");
  MOELAB_CHECK(!in.gumbel_PE || in.gumbel_PE.numel() == pairs * experts, "Gumbel noise of ",
               in.gumbel_PE.numel());
  MOELAB_CHECK(!in.uniform_P || in.uniform_P.numel() == pairs, "uniform noise of ",
               in.uniform_P.numel());
  Backend& backend = tape.backend();
  const Mixed m{rule, logits, in.valid_T, backend.empty(DType::i32, {pairs})};
  SparseMixerChoice result;
  result.weight_P = tape.output(backend.empty(out, {pairs}), {&logits_TE});
  dispatch_real(logits.dtype(), "sparse_mixer", [&](auto real) {
    dispatch_real(out, "sparse_mixer", [&](auto weight) {
      forward<decltype(real), decltype(weight)>(m, in, result.weight_P.value);
    });
  });
  const auto ids = m.expert_P.span<std::int32_t>();
  result.expert_P.assign(ids.begin(), ids.end());
  if (!result.weight_P.needs_grad()) return result;
  tape.step("sparse_mixer", {result.weight_P.slot()},
            [m, output = result.weight_P.slot(), input = logits_TE.slot()](Tape& t) {
              const Grad dlogits = t.grad_of(input);
              if (!dlogits) return;
              dispatch_real(input.dtype, "sparse_mixer", [&](auto real) {
                dispatch_real(output.dtype, "sparse_mixer", [&](auto weight) {
                  backward<decltype(real), decltype(weight)>(m, t.grad(output), dlogits);
                });
              });
            });
  return result;
}

}  // namespace moelab
