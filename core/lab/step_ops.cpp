// T tokens, L a row's tokens, H hidden, F width, E experts, k choices, V vocabulary, P = T·k pairs.
#include "core/lab/step_ops.h"

#include "core/autograd/functions.h"
#include "core/lab/bench_layer.h"
#include "core/optim/optimizer.h"
#include "registry/error.h"
#include "registry/text.h"

namespace moelab {
namespace {

double words(Index n) { return 4.0 * static_cast<double>(n); }
double product(Index a, Index b, Index c) { return 2.0 * static_cast<double>(a * b * c); }

OpInstance with_cost(std::vector<OpInput> inputs, decltype(OpInstance::build) build, OpCost forward,
                     OpCost backward) {
  OpInstance c;
  c.inputs = std::move(inputs);
  c.build = std::move(build);
  c.forward = forward;
  c.backward = backward;
  return c;
}

OpInstance embedded(const StepShape& s) {
  const Index n = s.tokens * s.hidden;
  return with_cost(
      {OpInput::real({s.vocabulary, s.hidden}),
       OpInput::integers(DType::i32, {s.tokens}, 0, static_cast<double>(s.vocabulary - 1))},
      [](Tape& t, const std::vector<Variable>& in) {
        return std::vector<Variable>{embedding(t, in[0], in[1].value)};
      },
      {.bytes = words(2 * n)}, {.bytes = words(n + s.vocabulary * s.hidden)});
}

OpInstance normed(const StepShape& s) {
  const Index n = s.tokens * s.hidden;
  const auto flops = static_cast<double>(n);
  return with_cost({OpInput::real({s.tokens, s.hidden}), OpInput::real({s.hidden}, 0.5, 1.5)},
                   [](Tape& t, const std::vector<Variable>& in) {
                     return std::vector<Variable>{rms_norm(t, in[0], in[1], 1e-6)};
                   },
                   {4 * flops, words(2 * n)}, {11 * flops, words(3 * n)});
}

OpInstance projected(const StepShape& s, Index out) {
  const double flops = product(s.tokens, s.hidden, out);
  const Index elements = s.tokens * (s.hidden + out) + s.hidden * out;
  return with_cost({OpInput::real({s.tokens, s.hidden}), OpInput::real({out, s.hidden})},
                   [](Tape& t, const std::vector<Variable>& in) {
                     return std::vector<Variable>{linear(t, in[0], in[1])};
                   },
                   {flops, words(elements)}, {2 * flops, words(2 * elements)});
}

OpInstance rotated(const StepShape& s) {
  const Index n = s.tokens * s.hidden;
  const OpCost cost{3 * static_cast<double>(n), words(2 * n)};
  return with_cost(
      {OpInput::real({s.tokens, s.hidden}),
       OpInput::integers(DType::i32, {s.tokens}, 0, static_cast<double>(s.length - 1))},
      [heads = s.heads](Tape& t, const std::vector<Variable>& in) {
        return std::vector<Variable>{rope(t, in[0], heads, 1e4, in[1].value)};
      },
      cost, cost);
}

OpInstance attended(const StepShape& s) {
  const AttentionShape shape{s.tokens / s.length, s.length, s.heads, s.heads, s.hidden / s.heads};
  const Index seen = s.tokens * (s.length + 1) / 2;  // pairs of tokens, under the causal mask
  const auto pairs = static_cast<double>(seen * s.hidden);
  const Index n = s.tokens * s.hidden;
  return with_cost(
      {OpInput::real({s.tokens, s.hidden}), OpInput::real({s.tokens, s.hidden}),
       OpInput::real({s.tokens, s.hidden}), OpInput::integers(DType::i32, {s.tokens}, 0, 0)},
      [shape](Tape& t, const std::vector<Variable>& in) {
        return std::vector<Variable>{attention(t, in[0], in[1], in[2], shape, in[3].value)};
      },
      {4 * pairs, words(4 * n)}, {10 * pairs, words(8 * n)});
}

OpInstance added(const StepShape& s) {
  const Index n = s.tokens * s.hidden;
  return with_cost({OpInput::real({s.tokens, s.hidden}), OpInput::real({s.tokens, s.hidden})},
                   [](Tape& t, const std::vector<Variable>& in) {
                     return std::vector<Variable>{add(t, in[0], in[1])};
                   },
                   {static_cast<double>(n), words(3 * n)}, {});
}

OpInstance gated(const StepShape& s) {
  const double flops = product(s.tokens, s.hidden, s.experts);
  const Index elements = s.tokens * (s.hidden + s.experts) + s.hidden * s.experts;
  return with_cost(
      {OpInput::real({s.tokens, s.hidden}), OpInput::real({s.experts, s.hidden})},
      [](Tape& t, const std::vector<Variable>& in) {
        return std::vector<Variable>{gating(t, in[0], in[1], nullptr, in[0].value.dtype())};
      },
      {flops, words(elements)}, {2 * flops, words(2 * elements)});
}

OpInstance selected(const StepShape& s) {
  const Index n = s.tokens * s.experts, pairs = s.tokens * s.k;
  const auto elements = static_cast<double>(n);
  return with_cost(
      {OpInput::real({s.tokens, s.experts}, -3, 3), OpInput::integers(DType::u8, {s.tokens}, 1, 1)},
      [k = s.k](Tape& t, const std::vector<Variable>& in) {
        RouterRule rule;
        rule.k = k;
        return std::vector<Variable>{
            router_select(t, in[0], rule, {}, in[1].value, nullptr, in[0].value.dtype()).weight_P};
      },
      {20 * elements, words(2 * n + 2 * pairs)}, {10 * elements, words(2 * n + pairs)});
}

// Token t takes k neighbouring experts from one of its own on: even loads, rows in token order.
struct Rows {
  std::shared_ptr<std::vector<Index>> offset_E1 = std::make_shared<std::vector<Index>>();
  std::shared_ptr<std::vector<std::int32_t>> token_R =
                                                 std::make_shared<std::vector<std::int32_t>>(),
                                             row_P = std::make_shared<std::vector<std::int32_t>>();
  std::shared_ptr<std::vector<Index>> offset_T1 = std::make_shared<std::vector<Index>>();
};
Rows even_rows(const StepShape& s) {
  Rows rows;
  rows.row_P->resize(static_cast<std::size_t>(s.tokens * s.k));
  for (Index t = 0; t <= s.tokens; ++t) rows.offset_T1->push_back(t * s.k);
  for (Index e = 0; e < s.experts; ++e) {
    rows.offset_E1->push_back(static_cast<Index>(rows.token_R->size()));
    for (Index t = 0; t < s.tokens; ++t) {
      const Index choice = (e - t * 5 % s.experts + s.experts) % s.experts;
      if (choice >= s.k) continue;
      (*rows.row_P)[static_cast<std::size_t>(t * s.k + choice)] =
          static_cast<std::int32_t>(rows.token_R->size());
      rows.token_R->push_back(static_cast<std::int32_t>(t));
    }
  }
  rows.offset_E1->push_back(static_cast<Index>(rows.token_R->size()));
  return rows;
}

OpInstance experts(const StepShape& s) {
  const std::shared_ptr<const Activation> swiglu = Component<Activation>{"swiglu"}.make({});
  const Rows rows = even_rows(s);
  const Index pairs = s.tokens * s.k, weights = 3 * s.experts * s.hidden * s.width;
  const double flops = product(pairs, s.hidden, 3 * s.width);
  return with_cost(
      {OpInput::real({s.tokens, s.hidden}), OpInput::real({s.experts, 2 * s.width, s.hidden}),
       OpInput::real({s.experts, s.hidden, s.width}), OpInput::real({pairs}, 0, 1)},
      [swiglu, rows](Tape& t, const std::vector<Variable>& in) {
        const GroupedMlp mlp{in[1], in[2], {}, {}, swiglu.get(), true};
        return std::vector<Variable>{
            grouped_mlp(t, in[0], rows.token_R, rows.offset_E1, &in[3], mlp)};
      },
      {flops, words(s.tokens * s.hidden + weights + pairs * (s.hidden + 2 * s.width))},
      {2 * flops, words(2 * s.tokens * s.hidden + 2 * weights + pairs * (s.hidden + 2 * s.width))});
}

OpInstance combined(const StepShape& s) {
  const Rows rows = even_rows(s);
  const OpCost cost{.bytes = words((s.tokens * s.k + s.tokens) * s.hidden)};
  return with_cost(
      {OpInput::real({s.tokens * s.k, s.hidden})},
      [rows](Tape& t, const std::vector<Variable>& in) {
        return std::vector<Variable>{combine_rows(t, in[0], rows.row_P, rows.offset_T1)};
      },
      cost, cost);
}

// Backward may leave the gradient where the logits were: other numbers, the same time.
OpInstance scored(const StepShape& s) {
  const Index n = s.tokens * s.vocabulary;
  const auto elements = static_cast<double>(n);
  return with_cost(
      {OpInput::real({s.tokens, s.vocabulary}, -3, 3),
       OpInput::integers(DType::i32, {s.tokens}, 0, static_cast<double>(s.vocabulary - 1))},
      [](Tape& t, const std::vector<Variable>& in) {
        return std::vector<Variable>{cross_entropy_sum(t, in[0], in[1].value)};
      },
      {20 * elements, words(n)}, {20 * elements, words(2 * n)});
}

// The layer's experts and attention projections, updated once; there is no backward.
OpInstance updated(const StepShape& s) {
  const Index n = 3 * s.experts * s.hidden * s.width + 4 * s.hidden * s.hidden;
  struct State {
    Parameter parameter;
    std::unique_ptr<Optimizer> optimizer;
    Index step = 0;
  };
  return with_cost(
      {OpInput::constant({n})},
      [state = std::make_shared<State>()](Tape& t, const std::vector<Variable>& in) {
        if (!state->optimizer) {
          const Tensor& value = in[0].value;
          state->parameter = make_parameter(t.backend(), value.dtype(), "weight", value.shape(),
                                            {Init::Kind::zeros, 0}, true);
          state->parameter.grad = value;
          state->parameter.grad_written = true;
          state->optimizer =
              Component<Optimizer>{"adamw"}.make({t.backend(), {&state->parameter}, {"weight"}});
        }
        state->optimizer->step(++state->step, 1e-3, 1.0);
        return std::vector<Variable>{};
      },
      {15 * static_cast<double>(n), words(7 * n)}, {});
}

}  // namespace

StepShape step_shape(const std::string& text) {
  if (text == "quickstart") return {text, 4096, 128, 128, 4, 128, 8, 2};
  constexpr Index kRow = 128, kHead = 64;
  const BenchShape layer = bench_shape(text);
  StepShape s{text, layer.tokens, layer.tokens,  layer.hidden,
              1,    layer.width,  layer.experts, layer.k};
  if (s.hidden % 2 != 0)
    throw Error(ExitCode::usage, str("shape '", text, "': attention needs an even hidden width, ",
                                     s.hidden, " is odd; take ", s.hidden + 1));
  if (s.tokens % kRow == 0) s.length = kRow;
  if (s.hidden % kHead == 0) s.heads = s.hidden / kHead;
  return s;
}

std::vector<OpCase> step_ops(const StepShape& s) {
  using Make = OpInstance (*)(const StepShape&);
  const auto op = [&s](const char* name, Make make) {
    return OpCase{name, [s, make](OpSize) { return make(s); }};
  };
  return {
      op("embedding", embedded),
      op("rms_norm", normed),
      op("linear", [](const StepShape& at) { return projected(at, at.hidden); }),
      op("rope", rotated),
      op("attention", attended),
      op("add", added),
      op("gating", gated),
      op("router_select", selected),
      op("grouped_mlp", experts),
      op("combine_rows", combined),
      op("linear_head", [](const StepShape& at) { return projected(at, at.vocabulary); }),
      op("cross_entropy", scored),
      op("adamw", updated),
  };
}

}  // namespace moelab
