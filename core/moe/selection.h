// What every top-k router shares: gate, selection among scores, weights, jitter. A router is a
// score and its own parameters beside these (routers/softmax.cpp). T tokens, H hidden, E experts.
#pragma once
#include <array>
#include <string>
#include <vector>

#include "core/autograd/functions.h"
#include "core/moe/router.h"

namespace moelab {

enum class GateDType : std::uint8_t { input, f32, f64 };
template <>
struct EnumNames<GateDType> {
  static constexpr std::array<std::pair<std::string_view, GateDType>, 3> value{
      {{"input", GateDType::input}, {"f32", GateDType::f32}, {"f64", GateDType::f64}}};
};

struct SelectionParams {
  std::int64_t k = 2;
  std::int64_t groups = 0, group_limit = 0, group_top = 0;
  double scaling = 1.0;
  double jitter = 0.0;
  GateDType dtype = GateDType::input;
  bool bias = false;
  void describe(ParamVisitor& v);
  void check(const Router::Facts& facts, Checker& checker) const;
  Router::Traits traits() const;
  // The parts of RouterRule that these decide.
  RouterRule rule() const;
  // "the 2 of 8 experts with the largest `key`", groups and choice bias included.
  std::string selection_text(const std::string& key) const;
  // " · 2.5" or "".
  std::string scaling_text() const;
};

// Routers that score each expert on its own and choose by the scores: sigmoid, sqrtsoftplus.
struct OwnScoreParams : SelectionParams {
  bool normalize = true;
  void describe(ParamVisitor& v);

 protected:
  RouterRule rule_for(ScoreKind score) const;
  // `score`: the formula of s.
  std::string formula_for(const std::string& score) const;
};

// Gate, jitter and selection by a rule.
class TopKRouter : public Router {
 public:
  TopKRouter(const SelectionParams& params, const RouterRule& rule, const Context& context);
  Routing route(Tape& tape, const RouterInput& input) override;
  void parameters(const std::function<void(Parameter&)>& visit) override;
  Parameter* gate() override { return &weight_EH_; }

 private:
  Variable jittered(Tape& tape, const RouterInput& input) const;

  SelectionParams params_;
  RouterRule rule_;
  std::string noise_name_;
  Index experts_ = 0;
  DType compute_;
  Parameter weight_EH_;
  Parameter bias_E_;  // value undefined without bias
};

}  // namespace moelab
