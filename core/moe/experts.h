// Experts: the feed-forward networks, grouped by local expert. By default the combine weight is
// multiplied between activation and down projection, so that backward needs only the input rows and
// the up projection's output. e local experts, R rows, H hidden, F expert width (2F up columns if
// gated).
#pragma once
#include <functional>
#include <string>

#include "core/autograd/tape.h"
#include "core/moe/dispatcher.h"
#include "registry/component.h"

namespace moelab {

enum class WeightAt : std::uint8_t { hidden, output, input };  // where the weight is multiplied

class Experts : public Module {
 public:
  static constexpr std::string_view family = "experts";
  struct Facts {
    Index hidden = 0, experts = 0, ep = 1;
  };
  struct Traits {
    Index width = 0;  // F
    bool gated = true;
    bool bias = false;
    WeightAt weight_at = WeightAt::hidden;
    // Of one expert that reads and writes rows of width `hidden`; unset: up (and gate) and down
    // projections of the width above.
    std::function<Index(Index hidden)> parameters{};
  };
  struct Context {
    Backend& backend;
    DType dtype;
    Index hidden = 0;  // of the rows: the latent width where the layer has one
    Index experts = 0, first_expert = 0, local_experts = 0;
    std::string name;  // "model.layers.3.mlp.experts"
    double init_std = 0.02, output_init_std = 0.02;
  };
  // y_RH, one row an input row, already weighted.
  virtual Variable forward(Tape&, const RowView& rows, const Variable& weight_R) = 0;
  // The up projections of the local experts [e, G, H] (gated: gate rows first), for losses on them;
  // null if they are no single tensor.
  virtual Parameter* up() { return nullptr; }
};

}  // namespace moelab
