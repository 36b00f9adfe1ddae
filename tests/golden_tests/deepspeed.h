// DeepSpeed's gate arguments as recipe text, and its recorded noise. A case with `gate` =
// top1gating, top2gating or topkgating calls that function; else TopKGate picks it by k.
#pragma once
#include "core/moe/router.h"
#include "tests/golden_tests/suite.h"

namespace moelab::test {

struct DeepSpeedGate {
  std::string router, dropper, balancer;  // lines of recipe text
  Index k = 1;
  Phase phase = Phase::train;
  bool drops = true;
  bool renormalizes = false;    // kept weights are divided by their sum
  bool by_choice_rank = false;  // slots go to first choices before second ones
  Index min_capacity = 0;
  double factor = 1;  // of the phase
};

DeepSpeedGate deepspeed_gate(const GoldenCase& c);
// "a = 1\nb = 2" → "{ a = 1, b = 2 }"
std::string inline_recipe(const std::string& lines);
// What an expert may take of `counts` rows of `tokens` tokens.
double deepspeed_rows(const DeepSpeedGate& gate, Index tokens, const std::vector<Index>& counts);

// Jitter, Gumbel noise and random token selection of the case, by the ends of their names: the part
// of one of `ranks` along the first axis. Ranks may ask at the same time.
NoiseSource recorded_noise(const GoldenCase& c, Index rank = 0, Index ranks = 1);

// Routing in which unused tokens stand and choose nobody. DeepSpeed averages its loss
// over them too, so they are no padding, which changes nothing in ours.
ForcedRouting without_unused(const RoutingPlan& plan, const Values& used_T);

}  // namespace moelab::test
