#include "core/ops/attention.h"

#include <cmath>

#include "core/autograd/functions.h"

namespace moelab {
namespace {

template <class T>
AttentionArgs<T> arguments(const AttentionShape& shape, const Tensor& q, const Tensor& k,
                           const Tensor& v, const Tensor& document_T) {
  AttentionArgs<T> args;
  args.batch = shape.batch, args.length = shape.length;
  args.heads = shape.heads, args.kv_heads = shape.kv_heads, args.head_dim = shape.head_dim;
  args.scale = static_cast<T>(
      shape.scale != 0 ? shape.scale : 1.0 / std::sqrt(static_cast<double>(shape.head_dim)));
  args.q = q.data<T>(), args.k = k.data<T>(), args.v = v.data<T>();
  args.document = document_T ? document_T.data<std::int32_t>() : nullptr;
  return args;
}

}  // namespace

Variable attention(Tape& tape, const Variable& q, const Variable& k, const Variable& v,
                   const AttentionShape& shape, const Tensor& document_T) {
  const OpTimer timer(tape, "attention");
  const Index tokens = shape.batch * shape.length;
  const Shape q_shape{tokens, shape.heads * shape.head_dim};
  const Shape kv_shape{tokens, shape.kv_heads * shape.head_dim};
  MOELAB_CHECK(q.value.shape() == q_shape && k.value.shape() == kv_shape &&
                   v.value.shape() == kv_shape && shape.heads % shape.kv_heads == 0,
               "attention of q ", q.value.shape().text(), ", k ", k.value.shape().text(), ", v ",
               v.value.shape().text(), " with ", shape.heads, " and ", shape.kv_heads, " heads");
  Backend& backend = tape.backend();
  const Variable o = tape.output(backend.empty_like(q.value), {&q, &k, &v});
  const Tensor lse = backend.empty(q.value.dtype(), {tokens, shape.heads});
  dispatch_real(q.value.dtype(), "attention", [&]<class T>(T) {
    attention_forward<T>(backend, arguments<T>(shape, q.value, k.value, v.value, document_T),
                         o.value.data<T>(), lse.data<T>());
  });
  if (!o.needs_grad()) return o;
  tape.step("attention", {o.slot()},
            [shape, document_T, lse, q = q.value, k = k.value, v = v.value, o = o.value,
             q_slot = q.slot(), k_slot = k.slot(), v_slot = v.slot(), o_slot = o.slot()](Tape& t) {
              const Tensor dout = t.grad(o_slot);
              const Grad gq = t.grad_of(q_slot), gk = t.grad_of(k_slot), gv = t.grad_of(v_slot);
              // A gradient that nobody wants is written to a tensor of its own.
              const Tensor dq = gq ? gq.into : t.backend().empty_like(q);
              const Tensor dk = gk ? gk.into : t.backend().empty_like(k);
              const Tensor dv = gv ? gv.into : t.backend().empty_like(v);
              dispatch_real(q.dtype(), "attention", [&]<class T>(T) {
                const AttentionGrads<T> grads{dq.data<T>(),  dk.data<T>(),  dv.data<T>(),
                                              gq.accumulate, gk.accumulate, gv.accumulate};
                attention_backward<T>(t.backend(), arguments<T>(shape, q, k, v, document_T),
                                      o.data<T>(), lse.data<T>(), dout.data<T>(), grads);
              });
            });
  return o;
}

}  // namespace moelab
