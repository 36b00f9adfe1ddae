#include "core/moe/gate_loss.h"

#include "registry/error.h"

namespace moelab {

std::optional<LossTerm> GateLoss::loss(Tape& tape, const BalancerInput& input) {
  Parameter* gate = input.router ? input.router->gate() : nullptr;
  if (!gate)
    throw Error(ExitCode::usage,
                str("the balancer '", label_,
                    "' is a loss on the gate's weight, but the router of "
                    "layer ",
                    input.layer, " has none; remove the balancer or take another router"));
  const Index parts = input.moment.micro_batches * (input.dp ? input.dp->size() : 1);
  LossTerm term;
  term.name = label_;
  term.layer = input.layer;
  term.value =
      scale(tape, gram_penalty(tape, tape.leaf(*gate), rule_), 1.0 / static_cast<double>(parts));
  term.coefficient = coefficient_;
  term.replicated = false;
  return term;
}

}  // namespace moelab
