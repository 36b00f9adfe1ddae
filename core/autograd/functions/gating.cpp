#include "core/autograd/functions.h"
#include "core/backend/gemm.h"
#include "core/ops/convert.k.h"
#include "core/ops/linear.k.h"

namespace moelab {
namespace {

template <class T>
Tensor as(const Backend& backend, const Tensor& t) {
  if (t.dtype() == DTypeOf<T>::value) return t;
  const Tensor out = backend.empty(DTypeOf<T>::value, t.shape());
  dispatch_real(t.dtype(), "gating", [&](auto zero) {
    MOELAB_KERNELS::convert(t.numel(), t.data<decltype(zero)>(), false, out.data<T>());
  });
  return out;
}

// Adds or writes a gradient computed by `fill(destination, beta)`, in the variable's own dtype
// directly, else through a copy in T.
template <class T, class Fill>
void give(Tape& tape, const GradSlot& slot, const Fill& fill) {
  const Grad grad = tape.grad_of(slot);
  if (!grad) return;
  if (slot.dtype == DTypeOf<T>::value) return fill(grad.into.template data<T>(), grad.accumulate);
  const Tensor wide = tape.backend().empty(DTypeOf<T>::value, slot.shape);
  fill(wide.data<T>(), false);
  dispatch_real(slot.dtype, "gating", [&](auto zero) {
    MOELAB_KERNELS::convert(wide.numel(), wide.data<T>(), grad.accumulate,
                            grad.into.template data<decltype(zero)>());
  });
}

struct Saved {  // in the dtypes of the inputs: what is wide is made again in backward
  Tensor x_TH, w_EH;
  GradSlot x, w, b, logits;
};

template <class T>
Tensor forward(const Backend& backend, const Tensor& x, const Tensor& w, const Variable* b_E) {
  const Index tokens = x.size(0), hidden = x.size(1), experts = w.size(0);
  const Tensor x_TH = as<T>(backend, x), w_EH = as<T>(backend, w);
  const Tensor logits = backend.empty(DTypeOf<T>::value, {tokens, experts});
  if (b_E)
    MOELAB_KERNELS::broadcast_row(tokens, experts, as<T>(backend, b_E->value).template data<T>(),
                                  logits.data<T>());
  GemmArgs<T> args;
  args.transpose_b = true;
  args.m = tokens;
  args.n = experts;
  args.k = hidden;
  args.a = x_TH.data<T>();
  args.lda = hidden;
  args.b = w_EH.data<T>();
  args.ldb = hidden;
  args.beta = b_E ? T(1) : T(0);
  args.c = logits.data<T>();
  args.ldc = experts;
  gemm(args);
  return logits;
}

template <class T>
void backward(Tape& tape, const Saved& s) {
  const Backend& backend = tape.backend();
  const Index tokens = s.x.shape[0], hidden = s.x.shape[1], experts = s.w.shape[0];
  const Tensor g_TE = tape.grad(s.logits);
  GemmArgs<T> args;
  args.ldb = args.ldc = args.n = hidden;
  args.a = g_TE.data<T>();
  args.lda = experts;
  const auto product = [&](const Tensor& right) {
    return [&, wide = as<T>(backend, right)](T* into, bool accumulate) {
      args.b = wide.template data<T>();
      args.beta = accumulate ? T(1) : T(0);
      args.c = into;
      args.transpose_a ? gemm_long_sum(backend, args) : gemm(args);
    };
  };
  args.m = tokens;
  args.k = experts;
  if (s.x.needs_grad()) give<T>(tape, s.x, product(s.w_EH));
  args.transpose_a = true;
  args.m = experts;
  args.k = tokens;
  if (s.w.needs_grad()) give<T>(tape, s.w, product(s.x_TH));
  give<T>(tape, s.b, [&](T* into, bool accumulate) {
    MOELAB_KERNELS::column_sums(tokens, experts, g_TE.data<T>(), accumulate, into);
  });
}

}  // namespace

Variable gating(Tape& tape, const Variable& x_TH, const Variable& w_EH, const Variable* b_E,
                DType compute) {
  const OpTimer timer(tape, "gating");
  Variable logits;
  dispatch_real(compute, "gating", [&](auto zero) {
    using T = decltype(zero);
    logits =
        tape.output(forward<T>(tape.backend(), x_TH.value, w_EH.value, b_E), {&x_TH, &w_EH, b_E});
    if (!logits.needs_grad()) return;
    const Saved saved{
        x_TH.value,   w_EH.value, x_TH.slot(), w_EH.slot(), b_E ? b_E->slot() : GradSlot{},
        logits.slot()};
    tape.step("gating", {saved.logits}, [saved](Tape& t) { backward<T>(t, saved); });
  });
  return logits;
}

}  // namespace moelab
