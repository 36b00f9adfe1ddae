// The dispatcher that fits the layout: local where a rank holds all experts, else alltoall.
#include "core/moe/dispatcher.h"

namespace moelab {
namespace {

class Auto final : public Dispatcher {
 public:
  struct Params {
    void describe(ParamVisitor&) {}
  };
  Auto(const Params&, const Context& context)
      : chosen_(Component<Dispatcher>(context.ranks.ep && context.ranks.ep->size() > 1 ? "alltoall"
                                                                                       : "local")
                    .make(context)) {}

  Dispatched dispatch(Tape& tape, const Variable& x_TH, const RoutingPlan& plan,
                      const Variable& weight_P, const Tokens& tokens) override {
    return chosen_->dispatch(tape, x_TH, plan, weight_P, tokens);
  }
  Variable combine(Tape& tape, const Variable& y_RH, const Dispatched& dispatched) override {
    return chosen_->combine(tape, y_RH, dispatched);
  }
  std::string describe(const Dispatched& dispatched) const override {
    return chosen_->describe(dispatched);
  }

 private:
  std::unique_ptr<Dispatcher> chosen_;
};

const Register<Dispatcher, Auto> registered{
    "auto", "local where a rank holds all experts (parallel.ep = 1), otherwise alltoall"};

}  // namespace
}  // namespace moelab
