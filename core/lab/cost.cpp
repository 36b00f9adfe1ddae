// H hidden, V vocabulary, N heads, M key/value heads of width D, L tokens a row, T tokens of a
// rank's micro-batch.
#include "core/lab/cost.h"

#include <algorithm>
#include <cmath>

namespace moelab {
namespace {

class Counter {
 public:
  explicit Counter(const RunConfig& config)
      : c_(config),
        m_(config.model),
        H_(m_.hidden),
        D_(m_.head_dim > 0 ? m_.head_dim : H_ / m_.heads) {}

  LayerCost norm(Index width) const {
    return LayerCost::dense(m_.norm.traits().vectors * width, 0, static_cast<double>(width));
  }

  LayerCost attention() const {
    const Index q = m_.heads * D_, kv = m_.kv_heads * D_;
    const Index weights = 2 * H_ * q + 2 * H_ * kv;
    const Index bias = m_.attention_bias ? q + 2 * kv + H_ : 0;
    // The normed input, queries, keys, values, output, and a log-sum a head.
    const Index saved = H_ + 2 * q + 2 * kv + m_.heads;
    LayerCost part = LayerCost::dense(weights + bias, weights, static_cast<double>(saved));
    if (m_.qk_norm) {
      const bool each_head = m_.qk_norm_width == QkNormWidth::head;
      part += norm(each_head ? D_ : q);
      part += norm(each_head ? D_ : kv);
      if (each_head) part.saved += static_cast<double>((m_.heads + m_.kv_heads - 2) * D_);
    }
    return part;
  }

  LayerCost ffn(const Component<Ffn>& component) const {
    const Ffn::Traits traits = component.traits();
    return traits.cost ? traits.cost(H_, c_.parallel.ep) : LayerCost{};
  }

  RunCost run() const {
    const Index vocabulary =
        m_.vocabulary > 0 ? m_.vocabulary : c_.data.tokenizer.traits().vocabulary;
    const Index table = vocabulary * H_;
    LayerCost ends = LayerCost::dense(m_.tied_embeddings ? table : 2 * table, table,
                                      static_cast<double>(H_ + vocabulary));
    ends += norm(H_);
    LayerCost blocks;
    double largest_saved = 0;
    for (const std::string& name : c_.layer_kinds()) {
      LayerCost block = attention();
      block += norm(H_);
      block += norm(H_);
      block += ffn(c_.ffn.at(name));
      largest_saved = std::max(largest_saved, block.saved);
      blocks += block;
    }
    return sum_up(ends, blocks, largest_saved);
  }

 private:
  RunCost sum_up(const LayerCost& ends, const LayerCost& blocks, double largest_saved) const {
    const Index length = c_.data.sequence_length, bytes = c_.run.dtype == RunDType::f64 ? 8 : 4;
    const Index layers = static_cast<Index>(c_.layer_kinds().size());
    LayerCost all = ends;
    all += blocks;
    RunCost cost;
    cost.parameters = all.parameters;
    cost.active_parameters = std::llround(all.active);
    cost.rank_parameters =
        all.parameters - all.expert_parameters + all.expert_parameters / c_.parallel.ep;
    const double context = 2.0 * static_cast<double>(m_.heads * D_ * (length + 1) * layers);
    const double in_blocks = 2.0 * blocks.multiplied + context;
    cost.forward_flops = in_blocks + 2.0 * ends.multiplied;
    cost.training_flops = 3 * cost.forward_flops + (recomputes() ? in_blocks : 0);
    const Index states = c_.optimizer.traits().state_tensors;
    cost.weight_bytes = cost.gradient_bytes = cost.rank_parameters * bytes;
    cost.optimizer_bytes = states * cost.rank_parameters * bytes;
    cost.checkpoint_bytes = (1 + states) * all.parameters * bytes;
    const Index tokens = c_.train.batch / c_.train.accumulate / c_.parallel.ranks * length;
    const double kept =
        recomputes() ? static_cast<double>(layers * H_) + largest_saved : blocks.saved;
    cost.activation_bytes =
        static_cast<Index>((kept + ends.saved) * static_cast<double>(tokens * bytes));
    return cost;
  }

  bool recomputes() const { return !m_.recompute.empty(); }

  const RunConfig& c_;
  const ModelSection& m_;
  Index H_, D_;
};

}  // namespace

RunCost run_cost(const RunConfig& config) { return Counter(config).run(); }

}  // namespace moelab
