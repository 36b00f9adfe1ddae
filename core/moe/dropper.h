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
  const NoiseSource* noise = nullptr;
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
    bool stochastic = false;       // draws who is dropped
    bool renormalizes = false;     // the kept weights of a token are divided by their sum
    double renormalize_floor = 0;  // or by this, if their sum is less
    std::optional<ScopeSpec> scope;
  };
  struct Context {
    Index experts = 0, k = 0, layer = 0;
    std::string name{};  // "model.layers.3.mlp.dropper"
  };
  virtual ~Dropper() = default;
  // Marks pairs of `plan` as dropped and may set filler rows. Reads weights, writes none.
  // Collective when the scope spans ranks: called on every rank.
  virtual void drop(RoutingPlan& plan, const Tensor& weight_P, const DropInput&) = 0;
};

// C = ceil(valid·k·factor / E), exact: the factor is taken as the decimal the user wrote (its
// shortest decimal text), so that 1.1 · 10 / 1 is 11 and not 12. At least `minimum`.
Index capacity(Index valid_tokens, Index k, Index experts, double factor, Index minimum);
// DeepSpeed's: the ceiling of the product of tokens / experts and k · factor, each rounded to
// float32. Never below the exact rule on what has been tried, and sometimes above it.
Index deepspeed_capacity(Index valid_tokens, Index k, Index experts, double factor, Index minimum);
// max(1, floor(valid·mean_k / E)), as exactly.
Index whole_share(Index valid_tokens, Index experts, double mean_k);

}  // namespace moelab
