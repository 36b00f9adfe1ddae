// T tokens, H hidden, N heads, M key/value heads of width D.
#include "core/model/attention.h"

#include <cmath>

#include "core/ops/cached_attention.k.h"

namespace moelab {

Index head_width(const ModelSection& section) {
  return section.head_dim > 0 ? section.head_dim : section.hidden / section.heads;
}

Attention::Attention(const ModelSection& section, const Context& context)
    : heads_(section.heads),
      kv_heads_(section.kv_heads),
      head_dim_(head_width(section)),
      layer_(context.layer),
      theta_(section.rope_theta) {
  const Index hidden = section.hidden, q_width = heads_ * head_dim_,
              kv_width = kv_heads_ * head_dim_;
  const bool bias = section.attention_bias;
  q_ = project(context, "q_proj", hidden, q_width, context.init_std, bias);
  k_ = project(context, "k_proj", hidden, kv_width, context.init_std, bias);
  v_ = project(context, "v_proj", hidden, kv_width, context.init_std, bias);
  o_ = project(context, "o_proj", q_width, hidden, context.output_init_std, bias);
  if (!section.qk_norm) return;
  const auto norm = [&](const char* name, Index width) {
    return section.norm.make(
        {context.backend, context.dtype, width, section.norm_eps, context.name + "." + name});
  };
  const bool each_head = section.qk_norm_width == QkNormWidth::head;
  q_norm_ = norm("q_norm", each_head ? head_dim_ : q_width);
  k_norm_ = norm("k_norm", each_head ? head_dim_ : kv_width);
  norm_each_head_ = each_head;
}

Attention::Projection Attention::project(const Context& context, const std::string& name, Index in,
                                         Index out, double std, bool bias) const {
  const std::string full = context.name + "." + name;
  Projection p;
  p.weight = make_parameter(context.backend, context.dtype, full + ".weight", {out, in},
                            {Init::Kind::normal, std}, true);
  if (bias)
    p.bias = make_parameter(context.backend, context.dtype, full + ".bias", {out},
                            {Init::Kind::zeros, 0}, false);
  return p;
}

Variable Attention::Projection::apply(Tape& tape, const Variable& x) {
  const Variable w = tape.leaf(weight);
  if (!bias.value) return linear(tape, x, w);
  const Variable b = tape.leaf(bias);
  return linear(tape, x, w, &b);
}

void Attention::Projection::visit(const std::function<void(Parameter&)>& v) {
  v(weight);
  if (bias.value) v(bias);
}

Variable Attention::normed(Tape& tape, Norm& norm, const Variable& x) const {
  if (!norm_each_head_) return norm.forward(tape, x);
  const Shape flat = x.value.shape();
  const Variable heads = reshape(tape, x, {x.value.numel() / head_dim_, head_dim_});
  return reshape(tape, norm.forward(tape, heads), flat);
}

Variable Attention::forward(Tape& tape, const Variable& x_TH, const Tokens& tokens,
                            const Tensor& document_T, KvCache* cache) {
  Variable q = q_.apply(tape, x_TH), k = k_.apply(tape, x_TH);
  const Variable v = v_.apply(tape, x_TH);
  if (q_norm_) {
    q = normed(tape, *q_norm_, q);
    k = normed(tape, *k_norm_, k);
  }
  q = rope(tape, q, heads_, theta_, tokens.position_T);
  k = rope(tape, k, kv_heads_, theta_, tokens.position_T);
  if (cache) cache->append(layer_, k.value, v.value, tokens.length);
  if (cache && cache->length() > 0)
    return o_.apply(tape, tape.constant(over_cache(tape.backend(), q.value, tokens, *cache)));
  const AttentionShape shape{tokens.rows, tokens.length, heads_, kv_heads_, head_dim_, 0};
  return o_.apply(tape, attention(tape, q, k, v, shape, document_T));
}

Tensor Attention::over_cache(Backend& backend, const Tensor& q, const Tokens& tokens,
                             const KvCache& cache) const {
  const Tensor o = backend.empty_like(q);
  const Tensor score = backend.empty(q.dtype(), {tokens.count() * heads_, cache.capacity()});
  dispatch_real(q.dtype(), "cached attention", [&](auto tag) {
    using T = decltype(tag);
    cpu_kernels::cached_attention<T>({tokens.rows, tokens.length, cache.length(), cache.capacity(),
                                      heads_, kv_heads_, head_dim_,
                                      T(1 / std::sqrt(static_cast<double>(head_dim_))), q.data<T>(),
                                      cache.keys(layer_).data<T>(), cache.values(layer_).data<T>(),
                                      score.data<T>(), o.data<T>()});
  });
  return o;
}

void Attention::parameters(const std::function<void(Parameter&)>& visit) {
  q_.visit(visit);
  k_.visit(visit);
  v_.visit(visit);
  o_.visit(visit);
  if (!q_norm_) return;
  q_norm_->parameters(visit);
  k_norm_->parameters(visit);
}

}  // namespace moelab
