// The MoE layer as a whole. T tokens, H hidden, E experts, R rows, F width.
#include <doctest/doctest.h>

#include <map>

#include "core/lab/layer_bench.h"
#include "core/lab/op_checks.h"
#include "tests/support/tolerance.h"

using namespace moelab;

namespace {

class SetWidth final : public ParamVisitor {  // sets "width" of any component that has it
 public:
  explicit SetWidth(std::int64_t width) : width_(width) {}

 private:
  void boolean(std::string_view, bool&, std::string_view) override {}
  void integer(std::string_view key, std::int64_t& value, std::string_view, const Rule&) override {
    if (key == "width") value = width_;
  }
  void real(std::string_view, double&, std::string_view, const Rule&) override {}
  void text(std::string_view, std::string&, std::string_view) override {}
  void choice(std::string_view, std::size_t&, std::span<const std::string_view>,
              std::string_view) override {}
  void texts(std::string_view, std::vector<std::string>&, std::string_view) override {}
  void reals(std::string_view, std::vector<double>&, std::string_view, const Rule&) override {}
  void slot(std::string_view, Slot&, std::string_view) override {}
  void slots(std::string_view, NamedSlots&, std::string_view) override {}
  void enter(std::string_view, std::string_view) override {}
  void leave() override {}

  std::int64_t width_;
};

MoeParams layer_params(const std::string& experts, std::int64_t num_experts, std::int64_t width) {
  MoeParams params;
  params.num_experts = num_experts;
  REQUIRE(params.experts.choose(experts));
  SetWidth visitor(width);
  params.experts.describe(visitor);
  return params;
}

}  // namespace

TEST_CASE("sequential and grouped experts agree, gradients too, with the same checkpoint names") {
  for (const DType dtype : {DType::f32, DType::f64})
    with_ranks(1, 1, [&](RankContext& ranks) {
      LayerCase c;
      c.dtype = dtype;
      c.length = 20;
      c.valid_columns = 17;
      LayerBench grouped(layer_params("grouped", 8, 12), c, ranks);
      LayerBench sequential(layer_params("sequential", 8, 12), c, ranks);
      const LayerRun a = grouped.run(), b = sequential.run();
      CHECK(compare(b.y_TH, a.y_TH, "y").worst < tolerance(dtype).composed);
      CHECK(compare(b.x_grad_TH, a.x_grad_TH, "dx").worst < tolerance(dtype).composed);
      std::map<std::string, Tensor> grad_of_piece;
      const auto visit = [](LayerBench& bench, const auto& body) {
        for (const Parameter* p : bench.parameters()) {
          const std::vector<Tensor> grads = p->split(p->grad);
          for (std::size_t i = 0; i < grads.size(); ++i) body(p->pieces[i].name, grads[i]);
        }
      };
      visit(grouped, [&](const std::string& name, const Tensor& g) { grad_of_piece[name] = g; });
      CHECK(grad_of_piece.size() == 1 + 3 * 8);
      visit(sequential, [&](const std::string& name, const Tensor& g) {
        REQUIRE(grad_of_piece.contains(name));
        const OpError error = compare(g, grad_of_piece[name], name);
        INFO(error.where);
        CHECK(error.worst < tolerance(dtype).composed);
        grad_of_piece.erase(name);
      });
      CHECK(grad_of_piece.empty());
    });
}

// What a gated layer keeps for backward: its input once, and the up projection's output; where rows
// travel, also those that arrived.
TEST_CASE("after a forward the arena holds T·H + 2·R·F elements, and little else") {
  constexpr Index kT = 64, kH = 64, kE = 4, kK = 2, kF = 48, kR = kT * kK;
  Index arrived = 0;
  SUBCASE("local") {}
  SUBCASE("alltoall") { arrived = kR * kH; }
  with_ranks(1, 1, [&](RankContext& ranks) {
    LayerCase c;
    c.rows = 2;
    c.length = kT / 2;
    c.hidden = kH;
    MoeParams params = layer_params("grouped", kE, kF);
    REQUIRE(params.dispatcher.choose(arrived > 0 ? "alltoall" : "local"));
    LayerBench bench(params, c, ranks);
    StepFacts facts;
    facts.valid_tokens_in_step = kT;
    facts.instances_in_step = [](ScopeSpec) { return Index{1}; };
    const auto live = [&] { return ranks.backend->arena().counters().live_bytes; };
    const std::size_t before = live();
    Tape tape(*ranks.backend);
    {
      const Variable x = tape.input(ranks.backend->empty(DType::f64, {kT, kH}));
      copy(bench.x(), x.value);
      const FfnOutput out = bench.layer().forward(tape, {x, bench.tokens(), {}, facts});
      CHECK(out.record->kept_E.size() == kE);
    }
    const auto held = static_cast<Index>((live() - before) / sizeof(double));
    const Index needed = kT * kH + 2 * kR * kF + arrived;
    constexpr Index kPerRowAndScore = 4;
    CHECK(held >= needed);
    CHECK(held <= needed + kPerRowAndScore * (kR + kT * kE));
  });
}

TEST_CASE("experts without rows have zero gradients, and a layer without tokens works") {
  with_ranks(1, 1, [&](RankContext& ranks) {
    LayerCase c;
    c.rows = 1;
    c.length = 3;
    LayerBench few(layer_params("grouped", 16, 8), c, ranks);
    const LayerRun run = few.run();
    std::size_t empty = 0;
    for (const Parameter* p : few.parameters()) {
      if (p->pieces.size() == 1) continue;
      const std::vector<Tensor> grads = p->split(p->grad);
      for (std::size_t i = 0; i < grads.size(); ++i) {
        const std::size_t expert = i / (grads.size() / 16);
        const bool zero = same_bits(grads[i], ranks.backend->zeros(DType::f64, grads[i].shape()));
        CHECK(zero == (run.record->kept_E[expert] == 0));
        empty += zero ? 1 : 0;
      }
    }
    CHECK(empty >= 10);
    c.valid_rows = 0;
    LayerBench none(layer_params("grouped", 4, 8), c, ranks);
    const LayerRun nothing = none.run();
    CHECK(nothing.record->valid_tokens == 0);
    CHECK(same_bits(nothing.y_TH, ranks.backend->zeros(DType::f64, {3, c.hidden})));
    CHECK(same_bits(nothing.x_grad_TH, ranks.backend->zeros(DType::f64, {3, c.hidden})));
  });
}
