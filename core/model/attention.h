// Attention block: projections, optional norm of queries and keys, rotary positions, causal
// attention with grouped queries, output projection. T tokens, H hidden, N heads, M key/value heads
// of width D.
#pragma once
#include <memory>
#include <string>

#include "core/autograd/functions.h"
#include "core/model/kv_cache.h"
#include "core/model/model_section.h"
#include "core/moe/tokens.h"

namespace moelab {

class Attention : public Module {
 public:
  struct Context {
    Backend& backend;
    DType dtype;
    Index layer = 0;
    std::string name;  // "model.layers.3.self_attn"
    double init_std = 0.02, output_init_std = 0.02;
  };
  Attention(const ModelSection& section, const Context& context);
  // document_T: attention stays inside a document. With a cache, x holds the positions that follow
  // those in it, and no gradient is recorded.
  Variable forward(Tape& tape, const Variable& x_TH, const Tokens& tokens, const Tensor& document_T,
                   KvCache* cache);
  void parameters(const std::function<void(Parameter&)>& visit) override;

 private:
  struct Projection {
    Parameter weight, bias;  // bias.value undefined: none
    Variable apply(Tape& tape, const Variable& x);
    void visit(const std::function<void(Parameter&)>& v);
  };
  Projection project(const Context& context, const std::string& name, Index in, Index out,
                     double std, bool bias) const;
  Tensor over_cache(Backend& backend, const Tensor& q, const Tokens& tokens,
                    const KvCache& cache) const;
  Variable normed(Tape& tape, Norm& norm, const Variable& x) const;

  Index heads_ = 0, kv_heads_ = 0, head_dim_ = 0, layer_ = 0;
  double theta_ = 10000;
  bool norm_each_head_ = true;
  Projection q_, k_, v_, o_;
  std::unique_ptr<Norm> q_norm_, k_norm_;
};

// Width of a head: section.head_dim, or hidden / heads.
Index head_width(const ModelSection& section);

}  // namespace moelab
