#include "tests/golden_tests/megatron_layer_recipe.h"

#include <map>
#include <stdexcept>

#include "registry/text.h"

namespace moelab::test {
namespace {

// "type = \"a\"\nk = 2" → "{ type = \"a\", k = 2 }"
std::string inline_table(const std::string& lines) {
  std::string out = "{ ";
  for (const char c : lines) out += c == '\n' ? std::string(", ") : std::string(1, c);
  return out + " }";
}

std::string activation(const GoldenCase& c) {
  const std::string name = c.text("activation_func");
  const bool gated = c.flag("gated_linear_unit");
  const bool clamped = c.given("activation_func_clamp_value");
  const double offset = c.number("glu_linear_offset");
  if (clamped || offset != 0) {
    if (!gated || name != "silu")
      throw std::runtime_error("does not know a clamp or offset of the activation " + name);
    return str("{ type = \"clamped_swiglu\", alpha = 1.0, limit = ",
               clamped ? c.text("activation_func_clamp_value") : "0.0",
               ", offset = ", exact(offset), " }");
  }
  static const std::map<std::string, std::pair<std::string, std::string>> known{
      {"silu", {"silu", "swiglu"}}, {"gelu", {"gelu", "geglu"}}, {"relu", {"relu", "reglu"}}};
  const auto at = known.find(name);
  if (at == known.end()) throw std::runtime_error("does not know the activation " + name);
  return str("{ type = \"", gated ? at->second.second : at->second.first, "\" }");
}

std::string experts(const GoldenCase& c) {
  return str("{ type = \"grouped\", width = ", c.text("moe_ffn_hidden_size"),
             ", activation = ", activation(c), ", bias = ", c.text("add_bias_linear"),
             ", weight_at = \"", c.flag("moe_apply_probs_on_input") ? "input" : "hidden", "\" }");
}

std::string shared(const GoldenCase& c) {
  const bool gate = c.flag("moe_shared_expert_gate");
  if (!c.given("moe_shared_expert_intermediate_size")) return "{ type = \"none\" }";
  return str("{ type = \"", gate ? "gated" : "plain",
             "\", width = ", c.text("moe_shared_expert_intermediate_size"),
             ", activation = ", activation(c), " }");
}

std::string dropper(const GoldenCase& c) {
  const std::string policy = c.text("moe_token_drop_policy");
  const std::string pad = c.text("moe_pad_expert_input_to_capacity");
  if (!c.given("moe_expert_capacity_factor")) return "{ type = \"none\" }";
  return str("{ type = \"", policy, "\", capacity_factor = ", c.text("moe_expert_capacity_factor"),
             ", pad_to_capacity = ", pad, " }");
}

std::string router(const GoldenCase& c) {
  std::string lines = megatron_router(c);
  if (c.flag("add_bias_linear")) lines += "\nbias = true";
  return inline_table(lines);
}

}  // namespace

std::string layer_recipe(const GoldenCase& c, const std::vector<AttachedLoss>& losses) {
  std::string recipe =
      str("kind = \"moe\"\nnum_experts = ", c.text("num_moe_experts"), "\nrouter = ", router(c),
          "\nexperts = ", experts(c), "\nshared = ", shared(c), "\ndropper = ", dropper(c),
          "\ndispatcher = { type = \"", c.text("moe_token_dispatcher_type"), "\" }\n");
  for (const AttachedLoss& loss : losses)
    recipe += str("balancers.", loss.type, " = { type = \"", loss.type,
                  "\", coefficient = ", exact(loss.coefficient), " }\n");
  if (c.flag("moe_router_enable_expert_bias"))
    recipe += str("balancers.", kBiasLabel, " = { type = \"expert_bias\" }\n");
  return recipe;
}

std::string weight_name(const std::string& parameter) {
  static const std::map<std::string, std::string> names{
      {"test.mlp.gate.weight", "router_weight"},
      {"test.mlp.gate.bias", "router_bias"},
      {"test.mlp.experts.gate_up_proj.weight", "fc1"},
      {"test.mlp.experts.up_proj.weight", "fc1"},
      {"test.mlp.experts.gate_up_proj.bias", "fc1_bias"},
      {"test.mlp.experts.up_proj.bias", "fc1_bias"},
      {"test.mlp.experts.down_proj.weight", "fc2"},
      {"test.mlp.experts.down_proj.bias", "fc2_bias"},
      {"test.mlp.shared_experts.gate_up_proj.weight", "shared_fc1"},
      {"test.mlp.shared_experts.up_proj.weight", "shared_fc1"},
      {"test.mlp.shared_experts.down_proj.weight", "shared_fc2"},
      {"test.mlp.shared_expert_gate.weight", "shared_gate"},
  };
  const auto at = names.find(parameter);
  if (at == names.end()) throw std::runtime_error("the case has no weight for " + parameter);
  return at->second;
}

}  // namespace moelab::test
