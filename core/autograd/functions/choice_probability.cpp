#include "core/ops/choice_probability.k.h"

#include "core/autograd/functions.h"

namespace moelab {
namespace {

struct Saved {  // of one forward
  Tensor clean, noisy, std, valid, best;
  double fixed_std = 0;
  Index k = 0;
  template <class T>
  MOELAB_KERNELS::ChoiceProbability<T> arguments(T* p) const {
    return {clean.size(0),
            clean.size(1),
            k,
            clean.data<T>(),
            noisy.data<T>(),
            std ? std.data<T>() : nullptr,
            static_cast<T>(fixed_std),
            valid.data<std::uint8_t>(),
            best.data<std::int32_t>(),
            p};
  }
};

}  // namespace

Variable choice_probability(Tape& tape, const Variable& clean_TE, const Variable& noisy_TE,
                            const Variable* std_TE, double fixed_std, Index k,
                            const Tensor& valid_T) {
  const OpTimer timer(tape, "choice_probability");
  const Tensor& clean = clean_TE.value;
  MOELAB_CHECK(clean.shape() == noisy_TE.value.shape() && k >= 1 && k < clean.size(1), k,
               " best of ", clean.shape().text(), " and ", noisy_TE.value.shape().text());
  MOELAB_CHECK(std_TE || fixed_std > 0, "noise of deviation ", fixed_std);
  const Saved saved{clean,
                    noisy_TE.value,
                    std_TE ? std_TE->value : Tensor{},
                    valid_T,
                    tape.backend().empty(DType::i32, {clean.size(0), k + 1}),
                    fixed_std,
                    k};
  const Tensor p_TE = tape.backend().empty_like(clean);
  dispatch_real(clean.dtype(), "choice_probability", [&]<class T>(T) {
    MOELAB_KERNELS::choice_probability(saved.arguments<T>(p_TE.data<T>()));
  });
  Variable y = tape.output(p_TE, {&clean_TE, &noisy_TE, std_TE});
  if (!y.needs_grad()) return y;
  const GradSlot std_slot = std_TE ? std_TE->slot() : GradSlot{};
  tape.step("choice_probability", {y.slot()},
            [saved, output = y.slot(), clean_slot = clean_TE.slot(), noisy_slot = noisy_TE.slot(),
             std_slot](Tape& t) {
              const Tensor dp = t.grad(output);
              dispatch_real(dp.dtype(), "choice_probability", [&]<class T>(T) {
                // One slot at a time: clean and noisy logits may be the same variable.
                const auto give = [&](const GradSlot& slot,
                                      T* MOELAB_KERNELS::ChoiceProbabilityGrad<T>::*to,
                                      bool MOELAB_KERNELS::ChoiceProbabilityGrad<T>::*adds) {
                  const Grad grad = t.grad_of(slot);
                  if (!grad) return;
                  MOELAB_KERNELS::ChoiceProbabilityGrad<T> args{saved.arguments<T>(nullptr),
                                                                dp.data<T>()};
                  args.*to = grad.into.data<T>();
                  args.*adds = grad.accumulate;
                  MOELAB_KERNELS::choice_probability_backward(args);
                };
                using G = MOELAB_KERNELS::ChoiceProbabilityGrad<T>;
                give(clean_slot, &G::dclean_TE, &G::accumulate_clean);
                give(noisy_slot, &G::dnoisy_TE, &G::accumulate_noisy);
                give(std_slot, &G::dstd_TE, &G::accumulate_std);
              });
            });
  return y;
}

}  // namespace moelab
