// Dispatcher: brings each kept (token, expert) row to the rank that holds the expert and the
// results back. Rows of an expert are in global token order on every layout; combine sums a token's
// rows in choice order. T tokens, H hidden, R rows on this rank, e local experts, P pair slots.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "core/autograd/tape.h"
#include "core/moe/routing_plan.h"
#include "core/moe/tokens.h"
#include "core/parallel/rank_context.h"
#include "registry/component.h"

namespace moelab {

// Rows as a view: row r is source_SH[row_R[r]]; −1 is a zero row (filler). Experts fuse the gather.
struct RowView {
  Variable source_SH;
  std::shared_ptr<const std::vector<std::int32_t>> row_R;
  std::shared_ptr<const std::vector<Index>>
      offset_e1;  // rows of local expert i: [offset[i], offset[i+1])
  Index rows() const { return static_cast<Index>(row_R->size()); }
};

struct Dispatched {
  RowView rows;
  Variable weight_R;                   // combine weights in row order; 0 for filler
  std::shared_ptr<const void> ticket;  // what combine needs; owned by the dispatcher that made it
};

class Dispatcher {
 public:
  static constexpr std::string_view family = "dispatcher";
  struct Facts {
    Index ep = 1, experts = 0;
  };
  struct Traits {
    bool takes_capacity = true;  // works with dropping and filler rows
    bool needs_single_rank = false;
  };
  struct Context {
    RankContext& ranks;
    Index experts = 0;  // global; this rank holds [ep_rank·E/ep, (ep_rank+1)·E/ep)
  };
  virtual ~Dispatcher() = default;
  virtual Dispatched dispatch(Tape&, const Variable& x_TH, const RoutingPlan&,
                              const Variable& weight_P, const Tokens&) = 0;
  // y_TH: per token, the sum of its rows; exactly 0 for tokens without kept pairs.
  virtual Variable combine(Tape&, const Variable& y_RH, const Dispatched&) = 0;
  // Who sends how many rows and bytes to whom, as text; a pure function of plan and layout.
  virtual std::string describe(const Dispatched&) const = 0;
};

}  // namespace moelab
