#include "tests/golden_tests/deepspeed.h"

#include <algorithm>
#include <mutex>
#include <stdexcept>

#include "core/moe/dropper.h"
#include "registry/text.h"

namespace moelab::test {
namespace {

enum class Kind : std::uint8_t { top1, top2, topk };

Kind kind_of(const GoldenCase& c, Index k) {
  const std::string gate = c.given("gate") ? c.text("gate") : "TopKGate";
  if (gate == "TopKGate") return k == 1 ? Kind::top1 : k == 2 ? Kind::top2 : Kind::topk;
  if (gate == "top1gating") return Kind::top1;
  if (gate == "top2gating") return Kind::top2;
  if (gate == "topkgating") return Kind::topk;
  throw std::runtime_error("does not know the gate " + gate);
}

std::string router_of(const GoldenCase& c, Kind kind, const DeepSpeedGate& gate) {
  const std::string policy = c.given("noisy_gate_policy") ? c.text("noisy_gate_policy") : "None";
  if (policy != "None" && policy != "Jitter" && policy != "RSample")
    throw std::runtime_error("does not know the noise policy " + policy);
  const bool sampled = c.flag("second_expert_sampling");
  const auto flag = [](bool value) { return value ? "true" : "false"; };
  const std::string jitter = policy == "Jitter" ? "\njitter = 0.01" : "";
  if (kind == Kind::top1)
    return str("type = \"deepspeed_top1\"\nsample = ", flag(policy == "RSample"), jitter);
  // What drops also divides by the kept sum.
  const std::string normalize = str("\nnormalize = ", flag(!gate.drops), jitter);
  if (kind == Kind::topk) return str("type = \"deepspeed_topk\"\nk = ", gate.k, normalize);
  return str("type = \"deepspeed_top2\"\nsecond_choice = \"", sampled ? "sampled" : "largest", "\"",
             normalize);
}

std::string dropper_of(const GoldenCase& c, Kind kind, const DeepSpeedGate& gate) {
  const bool random = c.flag("use_rts");
  const std::string policy = c.given("drop_policy") ? c.text("drop_policy") : "probs";
  if (!gate.drops) return "type = \"none\"";
  const std::string type = kind == Kind::topk   ? policy
                           : kind == Kind::top2 ? "choice_rank"
                           : random             ? "random"
                                                : "position";
  std::string text =
      str("type = \"", type, "\"\ncapacity_factor = ", c.text("capacity_factor"),
          "\nmin_capacity = ", gate.min_capacity, "\ncapacity_rule = \"deepspeed_f32\"");
  if (c.given("eval_capacity_factor"))
    text += "\neval_capacity_factor = " + c.text("eval_capacity_factor");
  if (gate.renormalizes) text += "\nrenormalize = true\nrenormalize_floor = 1.1920928955078125e-07";
  return text;
}

}  // namespace

DeepSpeedGate deepspeed_gate(const GoldenCase& c) {
  DeepSpeedGate gate;
  gate.k = c.integer("k");
  const Kind kind = kind_of(c, gate.k);
  if (c.given("training") && !c.flag("training")) gate.phase = Phase::eval;
  gate.drops = c.flag("drop_tokens");
  gate.renormalizes = gate.drops && kind != Kind::top1;
  gate.by_choice_rank = kind == Kind::top2;
  gate.min_capacity = c.integer("min_capacity");
  gate.factor = c.number("capacity_factor");
  if (c.given("eval_capacity_factor") && gate.phase == Phase::eval)
    gate.factor = c.number("eval_capacity_factor");
  gate.router = router_of(c, kind, gate);
  gate.dropper = dropper_of(c, kind, gate);
  gate.balancer =
      str("type = \"deepspeed_aux\"\nchoices = \"", kind == Kind::top2 ? "first" : "all", "\"");
  return gate;
}

std::string inline_recipe(const std::string& lines) {
  std::string out = "{ ";
  for (const char c : lines) out += c == '\n' ? std::string(", ") : std::string(1, c);
  return out + " }";
}

double deepspeed_rows(const DeepSpeedGate& gate, Index tokens, const std::vector<Index>& counts) {
  const auto experts = static_cast<Index>(counts.size());
  return static_cast<double>(
      gate.drops ? deepspeed_capacity(tokens, gate.k, experts, gate.factor, gate.min_capacity)
                 : *std::max_element(counts.begin(), counts.end()));
}

NoiseSource recorded_noise(const GoldenCase& c, Index rank, Index ranks) {
  return [&c, rank, ranks](std::string_view name, const Tensor& out) {
    static std::mutex asking;  // a case notes what was asked for
    const std::lock_guard lock(asking);
    const std::string tensor = name.ends_with(".jitter")   ? "jitter"
                               : name.ends_with(".gumbel") ? "gumbel"
                               : name.ends_with(".random") ? "rts"
                                                           : std::string(name);
    if (!c.has(tensor)) return false;
    const Values& values = c.tensor(tensor).values;
    if (static_cast<Index>(values.size()) != out.numel() * ranks)
      throw std::runtime_error(
          str(tensor, " has ", values.size(), " elements, not ", out.numel() * ranks));
    dispatch_real(out.dtype(), "recorded noise", [&](auto zero) {
      for (Index i = 0; i < out.numel(); ++i)
        out.data<decltype(zero)>()[i] =
            static_cast<decltype(zero)>(values[static_cast<std::size_t>(rank * out.numel() + i)]);
    });
    return true;
  };
}

ForcedRouting without_unused(const RoutingPlan& plan, const Values& used_T) {
  ForcedRouting forced;
  forced.expert_P = plan.expert_P;
  for (Index t = 0; t < plan.tokens; ++t) {
    forced.offset_T1.push_back(plan.begin(t));
    for (Index p = plan.begin(t); p < plan.end(t); ++p)
      if (used_T.at(static_cast<std::size_t>(t)) == 0)
        forced.expert_P[static_cast<std::size_t>(p)] = -1;
  }
  forced.offset_T1.push_back(plan.pairs());
  return forced;
}

}  // namespace moelab::test
