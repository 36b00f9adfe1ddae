// What every top-k router shares beside the gate: selection among scores, and weights. A router is
// a score and its own parameters beside these (routers/softmax.cpp). T tokens, H hidden, E experts.
#pragma once
#include <string>
#include <vector>

#include "core/moe/gate.h"

namespace moelab {

// What experts outside the best groups are: not eligible, or eligible with the key 0.
enum class GroupMask : std::uint8_t { excluded, zero };
template <>
struct EnumNames<GroupMask> {
  static constexpr std::array<std::pair<std::string_view, GroupMask>, 2> value{
      {{"excluded", GroupMask::excluded}, {"zero", GroupMask::zero}}};
};

enum class ChooseBy : std::uint8_t { score, logit };
template <>
struct EnumNames<ChooseBy> {
  static constexpr std::array<std::pair<std::string_view, ChooseBy>, 2> value{
      {{"score", ChooseBy::score}, {"logit", ChooseBy::logit}}};
};

struct SelectionParams : GateParams {
  std::int64_t k = 2;
  std::int64_t groups = 0, group_limit = 0, group_top = 0;
  GroupMask group_mask = GroupMask::excluded;
  double scaling = 1.0;
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

// How chosen scores become combine weights: w_i = s_i / (max(‖s‖, floor) + epsilon).
struct NormalizeParams {
  bool normalize = true;
  double normalize_epsilon = 1e-20, normalize_floor = 0, normalize_power = 1;
  bool normalize_single = false;
  void describe(ParamVisitor& v, std::string_view doc);
  void check(Checker& checker) const;
  void put(RouterRule& rule, WeightRule otherwise) const;
  // " / (sum over chosen s_j + 1e-20)" or "".
  std::string text(std::int64_t k) const;
};

// Routers that score each expert on its own and choose by the scores: sigmoid, sqrtsoftplus.
struct OwnScoreParams : SelectionParams, NormalizeParams {
  ChooseBy choose_by = ChooseBy::score;
  void describe(ParamVisitor& v);
  void check(const Router::Facts& facts, Checker& checker) const;

 protected:
  RouterRule rule_for(ScoreKind score) const;
  // `score`: the formula of s from a logit l.
  std::string formula_for(const std::string& score) const;
};

// Gate and selection by a rule.
class TopKRouter : public GatedRouter {
 public:
  TopKRouter(const SelectionParams& params, const RouterRule& rule, const Context& context)
      : GatedRouter(params, context), rule_(rule) {}
  Routing route(Tape& tape, const RouterInput& input) override;

 private:
  RouterRule rule_;
};

// `ids`, if given, are k experts a token in choice order, −1 absent: selected elsewhere or forced.
// `bias_E` enters the selection only. Weights, scores and plan follow.
Routing route_top_k(Tape& tape, const RouterInput& input, const Variable& logits_TE,
                    const RouterRule& rule, const Tensor& bias_E,
                    const std::vector<std::int32_t>* ids = nullptr);

}  // namespace moelab
