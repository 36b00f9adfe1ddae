// What `moelab new dispatcher NAME` writes.
#include "core/cli/templates.h"

namespace moelab {
namespace {

constexpr const char* kComponent =
    R"file(// @name@: brings rows to their experts as dispatcher auto does: the place for what should
// happen to them on the way (another order of exchange, fewer bytes). T tokens, H hidden, R rows, P
// pair slots.
#include "core/moe/dispatcher.h"

namespace moelab {
namespace {

class @Name@ final : public Dispatcher {
 public:
  struct Params {
    void describe(ParamVisitor&) {}
    std::string formula() const { return "rows travel as with dispatcher auto"; }
  };
  @Name@(const Params&, const Context& context)
      : inner_(Component<Dispatcher>("auto").make(context)) {}

  Dispatched dispatch(Tape& tape, const Variable& x_TH, const RoutingPlan& plan,
                      const Variable& weight_P, const Tokens& tokens) override {
    return inner_->dispatch(tape, x_TH, plan, weight_P, tokens);
  }
  Variable combine(Tape& tape, const Variable& y_RH, const Dispatched& dispatched) override {
    return inner_->combine(tape, y_RH, dispatched);
  }
  std::string describe(const Dispatched& dispatched) const override {
    return "@name@: " + inner_->describe(dispatched);
  }

 private:
  std::unique_ptr<Dispatcher> inner_;
};

const Register<Dispatcher, @Name@> registered{"@name@", "brings rows as auto does"};

}  // namespace
}  // namespace moelab
)file";

constexpr const char* kTest = R"file(// What @name@ promises beside the contracts.
#include <cmath>
#include <iostream>
#include <string>

#include "core/lab/layer_bench.h"

using namespace moelab;

int main() {
  int failures = 0;
  const auto expect = [&](bool kept, const std::string& promise) {
    if (kept) return;
    std::cerr << "@name@: broken: " << promise << "\n";
    ++failures;
  };
  MoeParams layer, plain;
  expect(layer.dispatcher.choose("@name@"), "it is registered");
  for (const int ep : {1, 2})
    with_ranks(2, ep, [&](RankContext& ranks) {
      const Tensor y_TH = LayerBench(layer, {}, ranks).forward().y_TH;
      expect(same_bits(y_TH, LayerBench(plain, {}, ranks).forward().y_TH),
             "outputs are those of auto");
    });
  return failures == 0 ? 0 : 1;
}
)file";

const RegisterTemplate registered{{"dispatcher", "dispatchers", kComponent, kTest}};

}  // namespace
}  // namespace moelab
