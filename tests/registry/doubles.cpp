#include "core/model/norm.h"
#include "core/moe/moe_params.h"
namespace moelab {
namespace {
struct DNorm : Norm {
  struct Params {
    void describe(ParamVisitor&) {}
  };
  DNorm(const Params&, const Context&) {}
  Variable forward(Tape&, const Variable& x) override { return x; }
  void parameters(const std::function<void(Parameter&)>&) override {}
};
struct DMoe : Ffn {
  struct Params : MoeParams {
    void check(const Facts& facts, Checker& checker) const { check_moe(*this, facts, checker); }
    Traits traits() const { return moe_traits(*this); }
    std::string formula() const { return moe_formula(*this); }
  };
  DMoe(const Params&, const Context&) {}
  FfnOutput forward(Tape&, const FfnInput&) override { return {}; }
  void parameters(const std::function<void(Parameter&)>&) override {}
};
struct DDense : Ffn {
  struct Params {
    std::int64_t width = 128;
    void describe(ParamVisitor& v) { v("width", width, "w"); }
    Traits traits() const {
      Traits t;
      t.width = width;
      return t;
    }
  };
  DDense(const Params&, const Context&) {}
  FfnOutput forward(Tape&, const FfnInput&) override { return {}; }
  void parameters(const std::function<void(Parameter&)>&) override {}
};
struct DRouter : Router {
  struct Params {
    std::int64_t k = 2;
    void describe(ParamVisitor& v) { v("k", k, "experts chosen per token", at_least(1)); }
    Router::Traits traits() const {
      Router::Traits t;
      t.k = k;
      return t;
    }
    std::string formula() const { return "softmax"; }
  };
  DRouter(const Params&, const Context&) {}
  Routing route(Tape&, const RouterInput&) override { return {}; }
  void parameters(const std::function<void(Parameter&)>&) override {}
};
struct DDrop : Dropper {
  struct Params {
    void describe(ParamVisitor&) {}
  };
  DDrop(const Params&, const Context&) {}
  void drop(RoutingPlan&, const Tensor&, const DropInput&) override {}
};
struct DDisp : Dispatcher {
  struct Params {
    void describe(ParamVisitor&) {}
  };
  DDisp(const Params&, const Context&) {}
  Dispatched dispatch(Tape&, const Variable&, const RoutingPlan&, const Variable&,
                      const Tokens&) override {
    return {};
  }
  Variable combine(Tape&, const Variable& y, const Dispatched&) override { return y; }
  std::string describe(const Dispatched&) const override { return {}; }
};
struct DExp : Experts {
  struct Params {
    std::int64_t width = 128;
    void describe(ParamVisitor& v) { v("width", width, "w"); }
    Experts::Traits traits() const { return {width, true, false}; }
  };
  DExp(const Params&, const Context&) {}
  Variable forward(Tape&, const RowView& r, const Variable&) override { return r.source_SH; }
  void parameters(const std::function<void(Parameter&)>&) override {}
};
template <class F, class M>
void missing(const char* n) {
  if (!Registry<F>::get().entries().contains(n)) Register<F, M>(n, "double");
}
const bool done = [] {
  missing<Norm, DNorm>("rms_norm");
  missing<Ffn, DMoe>("moe");
  missing<Ffn, DDense>("dense");
  missing<Router, DRouter>("softmax");
  missing<Router, DRouter>("sigmoid");
  missing<Dropper, DDrop>("none");
  missing<Dropper, DDrop>("probs");
  missing<Dispatcher, DDisp>("auto");
  missing<Dispatcher, DDisp>("local");
  missing<Experts, DExp>("grouped");
  return true;
}();
}  // namespace
}  // namespace moelab
