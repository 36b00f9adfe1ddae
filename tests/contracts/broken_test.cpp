// Each contract catches a component that breaks it. These components are registered in this program
// only. T tokens, E experts.
#include <doctest/doctest.h>

#include <algorithm>

#include "core/autograd/functions.h"
#include "core/lab/contracts.h"

using namespace moelab;

namespace {

struct NoParams {
  void describe(ParamVisitor&) {}
};

struct Undocumented {
  bool flag = false;
  void describe(ParamVisitor& v) { v("flag", flag, ""); }
};

// A loss Σ c · score over tokens, c being 1/tokens as the member counts them.
class MeanScore : public Balancer {
 public:
  using Params = NoParams;
  MeanScore(const Params&, const Context& context) : backend_(context.backend) {}
  std::optional<LossTerm> loss(Tape& tape, const BalancerInput& input) override {
    const Variable& scores_TE = input.routing.scores_TE;
    const Index experts = scores_TE.value.size(1);
    const Tensor coefficient_GE = backend_.empty(DType::f64, {1, experts});
    for (Index e = 0; e < experts; ++e)
      coefficient_GE.data<double>()[e] = static_cast<double>(e) / divisor(input);
    const std::vector<std::int32_t> instance_T(static_cast<std::size_t>(input.tokens.count()), 0);
    return LossTerm{"mean_score", 0,
                    weighted_score_sum(tape, scores_TE, coefficient_GE, instance_T), 1.0, false};
  }

 protected:
  virtual double divisor(const BalancerInput& input) const {
    return static_cast<double>(input.valid_tokens_in_step);
  }

 private:
  Backend& backend_;
};

class CountsPadding final : public MeanScore {
  using MeanScore::MeanScore;
  double divisor(const BalancerInput& input) const override {
    return static_cast<double>(input.tokens.rows_global * input.tokens.length);
  }
};

class CountsOwnRank final : public MeanScore {
  using MeanScore::MeanScore;
  double divisor(const BalancerInput& input) const override {
    const auto valid_T = input.tokens.valid_T.span<std::uint8_t>();
    return static_cast<double>(std::ranges::count(valid_T, 1));
  }
};

class CountsCalls final : public MeanScore {
  using MeanScore::MeanScore;
  double divisor(const BalancerInput&) const override {
    static int calls = 0;
    return ++calls;
  }
};

class Forgetful final : public Dropper {  // loses pairs without a reason
 public:
  using Params = NoParams;
  Forgetful(const Params&, const Context&) {}
  void drop(RoutingPlan& plan, const Tensor&, const DropInput&) override {
    if (plan.pairs() == 0 || plan.fate_P[0] != PairFate::kept) return;
    plan.fate_P[0] = PairFate::absent;
    plan.expert_P[0] = -1;
  }
};

class WrongGradient final : public Experts {  // y = 3 · weight · x, backward of y = x
 public:
  struct Params : NoParams {
    Experts::Traits traits() const { return {1, false, false}; }
  };
  WrongGradient(const Params&, const Context&) {}
  Variable forward(Tape& tape, const RowView& rows, const Variable& weight_R) override {
    const Variable x_RH = gather_rows(tape, rows.source_SH, rows.row_R);
    const Tensor y_RH = tape.backend().empty_like(x_RH.value);
    dispatch_real(y_RH.dtype(), "test", [&](auto tag) {
      using T = decltype(tag);
      const Index width = y_RH.size(1);
      for (Index i = 0; i < y_RH.numel(); ++i)
        y_RH.data<T>()[i] = 3 * weight_R.value.data<T>()[i / width] * x_RH.value.data<T>()[i];
    });
    const Variable y = tape.output(y_RH, {&x_RH});
    if (y.needs_grad())
      tape.step("wrong", {y.slot()},
                [dx = x_RH.slot(), dy = y.slot()](Tape& t) { t.give(dx, t.grad(dy)); });
    return y;
  }
  void parameters(const std::function<void(Parameter&)>&) override {}
};

class Documentless final : public Dropper {
 public:
  using Params = Undocumented;
  Documentless(const Params&, const Context&) {}
  void drop(RoutingPlan&, const Tensor&, const DropInput&) override {}
};

const Register<Balancer, CountsPadding> counts_padding{"counts_padding", "for this test"};
const Register<Balancer, CountsOwnRank> counts_own_rank{"counts_own_rank", "for this test"};
const Register<Balancer, CountsCalls> counts_calls{"counts_calls", "for this test"};
const Register<Balancer, MeanScore> mean_score{"mean_score", "for this test: keeps everything"};
const Register<Dropper, Forgetful> forgetful{"forgetful", "for this test"};
const Register<Dropper, Documentless> documentless{"documentless", "for this test"};
const Register<Experts, WrongGradient> wrong_gradient{"wrong_gradient", "for this test"};

// The contracts that `name` breaks, by name.
std::vector<std::string> broken_by(const std::string& name) {
  std::vector<std::string> out;
  for (const ContractSubject& subject : contract_subjects()) {
    if (subject.name != name) continue;
    for (const Contract& contract : contracts()) {
      std::string broken;
      try {
        broken = contract.broken(subject);
      } catch (const InternalError& error) {
        broken = error.what();
      }
      if (!broken.empty()) out.push_back(contract.name);
    }
  }
  return out;
}

}  // namespace

TEST_CASE("each contract catches what it is for") {
  using Names = std::vector<std::string>;
  CHECK(broken_by("mean_score") == Names{});
  CHECK(broken_by("documentless") == Names{"docs"});
  CHECK(broken_by("counts_padding") == Names{"padding"});
  CHECK(broken_by("counts_own_rank") == Names{"ranks"});
  CHECK(std::ranges::count(broken_by("wrong_gradient"), "gradients") == 1);
  CHECK(std::ranges::count(broken_by("forgetful"), "pairs") == 1);
  const Names calls = broken_by("counts_calls");
  CHECK(std::ranges::count(calls, "determinism") == 1);
  CHECK(std::ranges::count(calls, "recompute") == 1);
}
