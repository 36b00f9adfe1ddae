// What tests of routers, balancers and droppers share: components as a recipe gives them, tokens,
// and a router whose logits are its input. T tokens, E experts.
#pragma once
#include <doctest/doctest.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/moe/moe_layer.h"
#include "registry/recipe.h"

namespace moelab::test {

// "type = \"softmax\"\nk = 2" → the component; throws where the recipe has a mistake.
template <class Family>
Component<Family> component(const std::string& toml) {
  Report report;
  const Node root = parse_recipe("[part]\n" + toml, "test.toml", Source::Origin::recipe, report);
  Component<Family> out;
  read_into(
      root, "", [&](ParamVisitor& v) { v("part", out, "under test"); }, report);
  for (const Problem& problem : report.problems()) throw std::runtime_error(problem.line());
  return out;
}

// What the component says against `facts`, a problem a line.
template <class Family>
std::string problems(const std::string& toml, const typename Family::Facts& facts) {
  Report report;
  component<Family>(toml).check(facts, report);
  std::string text;
  for (const Problem& problem : report.problems()) text += problem.text + "\n";
  return text;
}

// What a table [ffn.<name>] of kind moe says.
MoeParams moe_params(const std::string& toml);

// B rows of L tokens; `valid` as 0/1 by token, empty: all.
Tokens make_tokens(const Backend& backend, Index rows, Index length,
                   const std::vector<double>& valid = {}, Index first_row = 0,
                   Index rows_global = -1);

Tensor reals(const Backend& backend, DType dtype, Shape shape, const std::vector<double>& values);
std::vector<double> doubles(const Tensor& t);

// A router with the identity as gate, so that its input are its logits; one per test case.
class RouterBench {
 public:
  RouterBench(const std::string& recipe, Index experts, DType dtype);
  // Routes logits given as [T, E]; the tape is new each time.
  void route(const Tokens& tokens, const std::vector<double>& logits_TE, const Tensor& bias_E = {},
             Moment moment = {}, const ForcedRouting* forced = nullptr,
             std::shared_ptr<Group> dp = nullptr, const ChoicePricing* pricing = nullptr);

  // Starts a step: what the router keeps for its end is forgotten.
  void begin_step() { step_state_ = StateStore("step"); }
  Router& router() { return *router_; }
  StateStore& state() { return state_; }
  const StateStore& step_state() const { return step_state_; }
  // The same on a tape of the caller's, which several routers may share.
  Routing route_on(Tape& tape, const Variable& logits_TE, const Tokens& tokens);

  Backend& backend() { return *backend_; }
  Tape& tape() { return *tape_; }
  const Routing& routing() const { return routing_; }
  std::vector<double> dense_weights() const;  // [T·E]
  std::vector<double> map() const;            // [T·E] of 0/1, pairs not absent
  // Seeds the weights with a dense cotangent [T·E].
  void seed_weights(const std::vector<double>& cotangent_TE);
  std::vector<double> logits_gradient();  // runs backward

 private:
  std::shared_ptr<Backend> backend_;
  StateStore state_{"test"}, step_state_{"step"};
  Index experts_;
  DType dtype_;
  std::unique_ptr<Router> router_;
  std::unique_ptr<Tape> tape_;
  Variable x_TE_;
  Routing routing_;
};

// One balancer with the facts of a step around it: one rank, one layer.
class BalancerBench {
 public:
  BalancerBench(const std::string& recipe, Index experts, Index k, DType dtype = DType::f64);
  Balancer& balancer() { return *balancer_; }
  StateStore& state() { return state_; }
  StateStore& step_state() { return step_state_; }
  // The loss of one micro-batch. `instances`: of the step, for the balancer's scope.
  LossTerm loss(Tape& tape, const Routing& routing, const Tokens& tokens, Index instances,
                std::shared_ptr<Group> dp = nullptr);
  // The loss over all layers, of a step of one micro-batch.
  LossTerm pooled_loss(Tape& tape, const std::vector<Routing>& layers, const Tokens& tokens);

 private:
  std::shared_ptr<Backend> backend_;
  StateStore state_{"test"}, step_state_{"step"};
  std::unique_ptr<Balancer> balancer_;
};

}  // namespace moelab::test
