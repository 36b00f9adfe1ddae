#include "core/lab/op_checks.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/base/threads.h"

namespace moelab {
namespace {

double element(const Tensor& t, Index i) {
  switch (t.dtype()) {
    case DType::f32:
      return t.data<float>()[i];
    case DType::f64:
      return t.data<double>()[i];
    case DType::i32:
      return t.data<std::int32_t>()[i];
    case DType::i64:
      return static_cast<double>(t.data<std::int64_t>()[i]);
    default:
      MOELAB_CHECK(t.dtype() == DType::u8, name_of(t.dtype()));
      return t.data<std::uint8_t>()[i];
  }
}

double largest(const Tensor& t) {
  double most = 0;
  for (Index i = 0; i < t.numel(); ++i) most = std::max(most, std::abs(element(t, i)));
  return most;
}

void keep_worse(OpError& worst, double error, const std::string& where) {
  if (!std::isfinite(error)) error = std::numeric_limits<double>::infinity();
  if (error > worst.worst) worst = {error, where};
}
void keep_worse(OpError& worst, const OpError& other) {
  keep_worse(worst, other.worst, other.where);
}

// Leaves NaNs in the arena's cache, so that an op which reads what nobody wrote is seen.
void soil(const Backend& backend) {
  std::vector<Tensor> blocks;
  for (Index bytes = 64; bytes <= (1 << 20); bytes *= 2)
    for (int i = 0; i < 6; ++i) {
      blocks.push_back(backend.empty(DType::u8, {bytes}));
      std::memset(blocks.back().raw(), 0xFF, blocks.back().bytes());
    }
}

double objective(const OpInstance& instance, const std::vector<Tensor>& inputs, Backend& backend,
                 const std::vector<Tensor>& cotangents) {
  Tape tape(backend, Tape::Mode::forward);
  const auto outputs = instance.build(tape, op_variables(tape, instance, inputs));
  double total = 0;
  for (std::size_t o = 0; o < outputs.size(); ++o)
    for (Index i = 0; cotangents[o] && i < outputs[o].value.numel(); ++i)
      total += element(cotangents[o], i) * element(outputs[o].value, i);
  return total;
}

std::vector<Tensor> cotangents_of(const OpInstance& instance, const std::vector<Tensor>& inputs,
                                  Backend& backend) {
  Tape tape(backend);
  const auto outputs = instance.build(tape, op_variables(tape, instance, inputs));
  std::vector<Tensor> out;
  for (std::size_t o = 0; o < outputs.size(); ++o)
    out.push_back(outputs[o].needs_grad() ? op_cotangent(backend, outputs[o].value, o) : Tensor{});
  return out;
}

std::string first_difference(const OpRun& a, const OpRun& b) {
  const auto differ = [](const Tensor& x, const Tensor& y) {
    return x.defined() != y.defined() ||
           (x && (x.shape() != y.shape() || std::memcmp(x.raw(), y.raw(), x.bytes()) != 0));
  };
  for (std::size_t i = 0; i < a.outputs.size(); ++i)
    if (differ(a.outputs[i], b.outputs[i])) return str("output ", i);
  for (std::size_t i = 0; i < a.gradients.size(); ++i)
    if (differ(a.gradients[i], b.gradients[i])) return str("gradient of input ", i);
  return {};
}

}  // namespace

OpError compare(const Tensor& got, const Tensor& want, const std::string& what) {
  if (got.defined() != want.defined() || (got && got.shape() != want.shape()))
    return {std::numeric_limits<double>::infinity(), what + " has another shape"};
  OpError worst;
  if (!want) return worst;
  const double size = largest(want), scale = size > 0 ? size : 1.0;
  for (Index i = 0; i < want.numel(); ++i) {
    const double g = element(got, i), w = element(want, i), error = std::abs(g - w) / scale;
    if (!(error <= worst.worst))
      keep_worse(worst, error, str(what, ", element ", i, ": ", g, " instead of ", w));
  }
  return worst;
}

OpError check_finite_differences(const OpCase& op, Index samples) {
  constexpr double kStep = 1e-5;
  const auto backend = Backend::cpu();
  soil(*backend);
  const OpInstance instance = op.instance(OpSize::small);
  const auto inputs = op_inputs(op, instance, *backend, DType::f64);
  const OpRun run = run_op(instance, inputs, *backend);
  const auto cotangents = cotangents_of(instance, inputs, *backend);
  OpError worst;
  for (std::size_t n = 0; n < inputs.size(); ++n) {
    if (!instance.inputs[n].needs_grad) continue;
    MOELAB_CHECK(run.gradients[n].defined(), op.name, ": input ", n, " received no gradient");
    const Index size = inputs[n].numel();
    const double scale = std::max(largest(run.gradients[n]), 1e-3);
    for (Index s = 0; s < std::min(samples, size); ++s) {
      const auto pick =
          Rng(3, op.name, n).below(static_cast<std::uint64_t>(s), static_cast<std::uint64_t>(size));
      const Index i = size <= samples ? s : static_cast<Index>(pick);
      double& x = inputs[n].data<double>()[i];
      const double before = x;
      x = before + kStep;
      const double above = objective(instance, inputs, *backend, cotangents);
      x = before - kStep;
      const double below = objective(instance, inputs, *backend, cotangents);
      x = before;
      const double want = (above - below) / (2 * kStep), got = element(run.gradients[n], i);
      keep_worse(
          worst, std::abs(got - want) / scale,
          str("gradient of input ", n, ", element ", i, ": ", got, ", by differences ", want));
    }
  }
  return worst;
}

OpError check_precision(const OpCase& op) {
  const auto backend = Backend::cpu();
  soil(*backend);
  const OpInstance instance = op.instance(OpSize::small);
  const auto run = [&](DType dtype) {
    return run_op(instance, op_inputs(op, instance, *backend, dtype), *backend);
  };
  const OpRun narrow = run(DType::f32), wide = run(DType::f64);
  OpError worst;
  for (std::size_t i = 0; i < wide.outputs.size(); ++i)
    keep_worse(worst, compare(narrow.outputs[i], wide.outputs[i], str("output ", i)));
  for (std::size_t i = 0; i < wide.gradients.size(); ++i)
    keep_worse(worst,
               compare(narrow.gradients[i], wide.gradients[i], str("gradient of input ", i)));
  return worst;
}

OpError check_accumulation(const OpCase& op) {
  const auto backend = Backend::cpu();
  soil(*backend);
  const OpInstance instance = op.instance(OpSize::small);
  const auto inputs = op_inputs(op, instance, *backend, DType::f64);
  const OpRun plain = run_op(instance, inputs, *backend);
  std::vector<Tensor> initial;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    initial.push_back(plain.gradients[i] ? op_cotangent(*backend, inputs[i], 100 + i) : Tensor{});
  const OpRun added = run_op(instance, inputs, *backend, initial);
  OpError worst;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!initial[i]) continue;
    for (Index j = 0; j < inputs[i].numel(); ++j)
      initial[i].data<double>()[j] += plain.gradients[i].data<double>()[j];
    keep_worse(worst, compare(added.gradients[i], initial[i], str("gradient of input ", i)));
  }
  return worst;
}

std::string check_thread_equality(const OpCase& op, DType dtype, OpSize size) {
  const auto backend = Backend::cpu();
  const OpInstance instance = op.instance(size);
  const auto inputs = op_inputs(op, instance, *backend, dtype);
  const int before = threads();
  set_threads(1);
  const OpRun one = run_op(instance, inputs, *backend);
  std::string difference;
  for (const int count : {2, 4}) {
    set_threads(count);
    const std::string where = first_difference(one, run_op(instance, inputs, *backend));
    if (!where.empty() && difference.empty()) difference = str(where, " with ", count, " threads");
  }
  set_threads(before);
  return difference;
}

std::size_t measure_saved_bytes(const OpCase& op) {
  const auto backend = Backend::cpu();
  const OpInstance instance = op.instance(OpSize::small);
  const auto inputs = op_inputs(op, instance, *backend, DType::f64);
  Tape tape(*backend);
  const auto variables = op_variables(tape, instance, inputs);
  const std::size_t before = backend->arena().counters().live_bytes;
  instance.build(tape, variables);
  return backend->arena().counters().live_bytes - before;
}

}  // namespace moelab
