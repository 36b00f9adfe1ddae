#include "core/lab/op_case.h"

#include <algorithm>
#include <cmath>

namespace moelab {
namespace {

std::vector<OpCase>& cases() {  // never destroyed: filled before main
  static auto* all = new std::vector<OpCase>;
  return *all;
}

template <class T>
void fill_integers(const OpInput& input, const Rng& rng, const Tensor& t) {
  const auto values = static_cast<std::uint64_t>(input.high - input.low) + 1;
  for (Index i = 0; i < t.numel(); ++i)
    t.data<T>()[i] = static_cast<T>(
        input.low + static_cast<double>(rng.below(static_cast<std::uint64_t>(i), values)));
}

void fill_reals(const OpInput& input, const Rng& rng, const Tensor& t) {
  dispatch_real(t.dtype(), "op_inputs", [&]<class T>(T) {
    for (Index i = 0; i < t.numel(); ++i) {
      const double u = rng.uniform(static_cast<std::uint64_t>(i));
      t.data<T>()[i] = static_cast<T>(static_cast<float>(input.low + (input.high - input.low) * u));
    }
  });
}

}  // namespace

const std::vector<OpCase>& op_cases() { return cases(); }

RegisterOpCase::RegisterOpCase(std::string_view name, std::function<OpInstance(OpSize)> instance) {
  const auto at = std::lower_bound(cases().begin(), cases().end(), name,
                                   [](const OpCase& c, std::string_view n) { return c.name < n; });
  cases().insert(at, {std::string(name), std::move(instance)});
}

std::vector<Tensor> op_inputs(const OpCase& op, const OpInstance& instance, const Backend& backend,
                              DType dtype) {
  std::vector<Tensor> out;
  for (const OpInput& input : instance.inputs) {
    const Rng rng(1, op.name, out.size());
    const Tensor t = backend.empty(input.dtype == DType::f32 ? dtype : input.dtype, input.shape);
    if (input.dtype == DType::i32)
      fill_integers<std::int32_t>(input, rng, t);
    else if (input.dtype == DType::i64)
      fill_integers<std::int64_t>(input, rng, t);
    else if (input.dtype == DType::u8)
      fill_integers<std::uint8_t>(input, rng, t);
    else
      fill_reals(input, rng, t);
    out.push_back(t);
  }
  return out;
}

Tensor op_cotangent(const Backend& backend, const Tensor& output, std::size_t output_index) {
  const Tensor t = backend.empty_like(output);
  fill_reals(OpInput{}, Rng(2, "cotangent", output_index), t);
  return t;
}

std::vector<Variable> op_variables(Tape& tape, const OpInstance& instance,
                                   const std::vector<Tensor>& inputs) {
  std::vector<Variable> out;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const OpInput& input = instance.inputs[i];
    const bool wanted = input.needs_grad && input.dtype == DType::f32;
    out.push_back(wanted ? tape.input(inputs[i]) : tape.constant(inputs[i]));
  }
  return out;
}

OpRun run_op(const OpInstance& instance, const std::vector<Tensor>& inputs, Backend& backend,
             const std::vector<Tensor>& initial) {
  Tape tape(backend);
  const std::vector<Variable> variables = op_variables(tape, instance, inputs);
  OpRun run;
  {
    const std::vector<Variable> outputs = instance.build(tape, variables);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      run.outputs.push_back(backend.empty_like(outputs[i].value));
      copy(outputs[i].value, run.outputs.back());  // backward may overwrite what it saved
      if (outputs[i].needs_grad())
        tape.seed(outputs[i], op_cotangent(backend, outputs[i].value, i));
    }
  }
  for (std::size_t i = 0; i < initial.size(); ++i)
    if (initial[i]) tape.seed(variables[i], initial[i]);
  tape.backward();
  for (const Variable& v : variables) run.gradients.push_back(tape.grad(v.slot()));
  return run;
}

}  // namespace moelab
