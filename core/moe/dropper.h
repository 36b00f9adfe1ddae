// Dropper: fills each expert's capacity and drops the rest, within a scope.
#pragma once
#include <memory>
#include <string>

#include "core/moe/router.h"

namespace moelab {

struct DropInput {
  const Tokens& tokens;
  Moment moment;
  Index layer = 0;
  Index experts = 0, k = 0;
  std::function<const ScopeMap&(ScopeSpec)> scope;
};

class Dropper {
 public:
  static constexpr std::string_view family = "dropper";
  struct Facts {
    Index experts = 0, k = 0;
    Index rows_per_micro_batch = 0, ranks = 1, length = 0;
    bool dispatcher_takes_capacity = true;
    bool generates = false;
  };
  struct Traits {
    bool drops = false, pads = false;
    bool drops_in_inference = false;
    bool renormalizes = false;  // the kept weights of a token are divided by their sum
    std::optional<ScopeSpec> scope;
  };
  struct Context {
    Index experts = 0, k = 0, layer = 0;
  };
  virtual ~Dropper() = default;
  // Marks pairs of `plan` as dropped and may set filler rows. Reads weights, writes none.
  // Collective when the scope spans ranks: called on every rank.
  virtual void drop(RoutingPlan& plan, const Tensor& weight_P, const DropInput&) = 0;
};

// C = ceil(valid·k·factor / E), exact: the factor is taken as the decimal the user wrote (its
// shortest decimal text), so that 1.1 · 10 / 1 is 11 and not 12. At least `minimum`.
Index capacity(Index valid_tokens, Index k, Index experts, double factor, Index minimum);

}  // namespace moelab
