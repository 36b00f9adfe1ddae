#include "tests/golden_tests/megatron.h"

#include <array>
#include <cmath>
#include <stdexcept>
#include <utility>

namespace moelab::test {
namespace {

constexpr std::array<std::pair<const char*, const char*>, 3> kLosses{
    {{"aux_loss", "aux_loss"},
     {"seq_aux_loss", "sequence_aux_loss"},
     {"global_aux_loss", "global_aux_loss"}}};

bool is_loss(const std::string& type) {
  for (const auto& [theirs, ours] : kLosses)
    if (type == theirs) return true;
  return false;
}

bool given_flag(const GoldenCase& c, const std::string& param) {
  return c.given(param) && c.flag(param);
}

}  // namespace

std::string megatron_router(const GoldenCase& c) {
  const std::string k = "\nk = " + c.text("moe_router_topk");
  if (c.text("moe_router_load_balancing_type") == "sinkhorn") {
    c.ignore({"moe_router_score_function", "moe_router_pre_softmax"});  // as Megatron Core does
    return "type = \"sinkhorn\"\nstop = \"factor_change\"\ntolerance = 1e-4\nepsilon = 1e-8" + k;
  }
  const std::string score = c.text("moe_router_score_function");
  std::string recipe = "type = \"" + score + "\"" + k;
  const bool pre_softmax = given_flag(c, "moe_router_pre_softmax");
  if (score == "softmax")
    recipe += std::string("\nscore_first = ") + (pre_softmax ? "true" : "false");
  if (c.given("moe_router_topk_scaling_factor"))
    recipe += "\nscaling = " + c.text("moe_router_topk_scaling_factor");
  if (c.given("moe_router_num_groups"))
    recipe += "\ngroups = " + c.text("moe_router_num_groups") +
              "\ngroup_limit = " + c.text("moe_router_group_topk");
  return recipe;
}

std::vector<AttachedLoss> megatron_losses(const GoldenCase& c) {
  const auto types = c.list("moe_router_load_balancing_type");
  const auto coefficients = c.list("moe_aux_loss_coeff");
  if (types.size() != coefficients.size())
    throw std::runtime_error("moe_aux_loss_coeff does not fit moe_router_load_balancing_type");
  for (const std::string& type : types)
    if (!is_loss(type) && type != "none" && type != "sinkhorn")
      throw std::runtime_error("does not know the load balancing type " + type);
  std::vector<AttachedLoss> out;
  if (c.given("moe_z_loss_coeff")) out.push_back({"z_loss", c.number("moe_z_loss_coeff")});
  for (const auto& [theirs, ours] : kLosses)
    for (std::size_t i = 0; i < types.size(); ++i)
      if (types[i] == theirs) out.push_back({ours, std::stod(coefficients[i])});
  return out;
}

double sequence_factor(double valid, double mean_valid, Index sequences) {
  return std::pow(valid / mean_valid, 2) / static_cast<double>(sequences);
}

}  // namespace moelab::test
