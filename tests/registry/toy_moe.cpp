// Components whose traits the real ones do not have yet, for the cross-checks of a recipe.
#include "core/moe/moe_params.h"

namespace moelab {
namespace {

struct FutureRouter : Router {
  struct Params {
    std::int64_t k = 2;
    void describe(ParamVisitor& v) { v("k", k, "experts a token", at_least(1)); }
    Router::Traits traits() const {
      Router::Traits traits;
      traits.causal = false;
      traits.k = k;
      return traits;
    }
  };
  FutureRouter(const Params&, const Context&) {}
  Routing route(Tape&, const RouterInput&) override { return {}; }
  void parameters(const std::function<void(Parameter&)>&) override {}
};

struct NoisyRouter : FutureRouter {
  struct Params : FutureRouter::Params {
    Router::Traits traits() const {
      Router::Traits traits;
      traits.k = k;
      traits.stochastic = true;
      traits.train_inference_gap = {"noise on the logits while training"};
      return traits;
    }
  };
  NoisyRouter(const Params& params, const Context& context) : FutureRouter(params, context) {}
};

struct ToyDispatcher : Dispatcher {
  Dispatched dispatch(Tape&, const Variable&, const RoutingPlan&, const Variable&,
                      const Tokens&) override {
    return {};
  }
  Variable combine(Tape&, const Variable& y_RH, const Dispatched&) override { return y_RH; }
  std::string describe(const Dispatched&) const override { return {}; }
};
struct AloneDispatcher : ToyDispatcher {
  struct Params {
    void describe(ParamVisitor&) {}
    Dispatcher::Traits traits() const { return {true, true}; }
  };
  AloneDispatcher(const Params&, const Context&) {}
};
struct LooseDispatcher : ToyDispatcher {
  struct Params {
    void describe(ParamVisitor&) {}
    Dispatcher::Traits traits() const { return {false, false}; }
  };
  LooseDispatcher(const Params&, const Context&) {}
};

struct PadDropper : Dropper {
  struct Params {
    ScopeKind scope = ScopeKind::batch;
    std::int64_t group_size = 1;
    void describe(ParamVisitor& v) {
      v("scope", scope, "of the capacity");
      v("group_size", group_size, "rows of a group", at_least(1));
    }
    Dropper::Traits traits() const {
      Dropper::Traits traits;
      traits.drops = traits.pads = true;
      traits.scope = ScopeSpec{scope, group_size};
      return traits;
    }
  };
  PadDropper(const Params&, const Context&) {}
  void drop(RoutingPlan&, const Tensor&, const DropInput&) override {}
};

const Register<Router, FutureRouter> router{"toy_future", "looks ahead"};
const Register<Router, NoisyRouter> noisy{"toy_noisy", "noise while training"};
const Register<Dispatcher, AloneDispatcher> alone{"toy_alone", "one rank only"};
const Register<Dispatcher, LooseDispatcher> loose{"toy_loose", "no capacity"};
const Register<Dropper, PadDropper> pad{"toy_pad", "pads to capacity"};

}  // namespace
}  // namespace moelab
