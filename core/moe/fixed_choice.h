// Routers whose choice owes nothing to the hidden state: hash, random, round_robin. They differ in
// the experts that they name; weights are uniform, or learned by a gate that is read at the named
// experts alone. T tokens, E experts, P pair slots.
#pragma once
#include <span>
#include <vector>

#include "core/base/rng.h"
#include "core/moe/selection.h"

namespace moelab {

enum class FixedWeights : std::uint8_t { uniform, softmax, sigmoid, sqrtsoftplus };
template <>
struct EnumNames<FixedWeights> {
  static constexpr std::array<std::pair<std::string_view, FixedWeights>, 4> value{
      {{"uniform", FixedWeights::uniform},
       {"softmax", FixedWeights::softmax},
       {"sigmoid", FixedWeights::sigmoid},
       {"sqrtsoftplus", FixedWeights::sqrtsoftplus}}};
};

struct FixedChoiceParams : GateParams, NormalizeParams {
  std::int64_t k = 2;
  FixedWeights weights = FixedWeights::uniform;
  double scaling = 1.0;
  void describe(ParamVisitor& v);
  void check(const Router::Facts& facts, Checker& checker) const;
  Router::Traits traits() const;
  RouterRule rule() const;  // not for uniform weights
  // `choice`: which experts, in words.
  std::string formula_for(const std::string& choice) const;
};

class FixedChoiceRouter : public Router {
 public:
  Routing route(Tape& tape, const RouterInput& input) final;
  void parameters(const std::function<void(Parameter&)>& visit) override;
  Parameter* gate() override;

 protected:
  FixedChoiceRouter(const FixedChoiceParams& params, const Context& context);
  // k different experts of token t, in choice order.
  virtual void choose(const RouterInput& input, Index t, std::span<std::int32_t> chosen) const = 0;
  Index experts() const { return experts_; }

 private:
  class Gate;
  std::vector<std::int32_t> choices(const RouterInput& input) const;
  Routing uniform(Tape& tape, const RouterInput& input, std::vector<std::int32_t> expert_P) const;

  FixedChoiceParams params_;
  Index experts_ = 0;
  std::shared_ptr<Gate> gate_;  // null: uniform weights
};

// Different experts, uniformly: `chosen` by draws first, first + 1, …
void draw_distinct(const Rng& rng, std::uint64_t first, Index experts,
                   std::span<std::int32_t> chosen);

}  // namespace moelab
