// Where our numbers differ from another program's on purpose.
#include <numeric>

#include "tests/golden_tests/deepspeed.h"
#include "tests/golden_tests/suite.h"

namespace moelab::test {
namespace {

// Kept pairs are divided by their sum, and no token kept more than one.
bool lone_survivors(const GoldenCase& c) {
  if (!c.has("dispatch_mask") || !deepspeed_gate(c).renormalizes) return false;
  const GoldenTensor& mask_SEC = c.tensor("dispatch_mask");
  const std::size_t row = mask_SEC.values.size() / static_cast<std::size_t>(mask_SEC.size(0));
  for (std::size_t begin = 0; begin < mask_SEC.values.size(); begin += row) {
    const auto first = mask_SEC.values.begin() + static_cast<std::ptrdiff_t>(begin);
    if (std::accumulate(first, first + static_cast<std::ptrdiff_t>(row), 0.0) > 1) return false;
  }
  return true;
}

double ones(const GoldenTensor& map) {
  return std::accumulate(map.values.begin(), map.values.end(), 0.0);
}

}  // namespace

const std::vector<Deliberate>& deliberate_differences() {
  static const std::vector<Deliberate> all{
      {"megatron_topk", "*",
       "Megatron's softmax router takes an expert bias and ignores it; ours adds it to the choice. "
       "Without the bias the numbers are Megatron's",
       [](const GoldenCase& c) {
         return c.text("score_function") == "softmax" && c.has("expert_bias");
       }},
      {"deepspeed_gates", "ties_*",
       "Equal scores, where DeepSpeed's order is whatever torch's top-k gave; ours goes to the "
       "lowest expert, then the earliest token"},
      {"deepspeed_gates", "*",
       "A token's only kept weight, divided by itself, is 1 whatever its score: its gradient is "
       "exactly 0 in ours, and in DeepSpeed what float32 leaves of the difference of two equal "
       "terms. It shows where every token kept one pair at most",
       lone_survivors},
      {"topology_deepspeed", "expert_and_data_*",
       "Data before experts beside tensor parallelism: DeepSpeed has not built it in this "
       "function; "
       "the order is as good as any other",
       [](const GoldenCase& c) {
         return c.flag("refused") && c.flag("data_before_expert") && c.integer("mp") > 1;
       }},
      {"megatron_permute", "*",
       "Megatron's permute cuts rows off, or adds tokens that chose no expert, when it is told a "
       "number of rows other than the routing's; ours takes the number from the routing. The rows "
       "that both have are equal",
       [](const GoldenCase& c) {
         return c.given("num_out_tokens") &&
                c.number("num_out_tokens") != ones(c.tensor("routing_map"));
       }},
  };
  return all;
}

}  // namespace moelab::test
