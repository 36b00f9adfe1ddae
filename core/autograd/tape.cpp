#include "core/autograd/tape.h"

#include <omp.h>

#include "core/ops/elementwise.k.h"

namespace moelab {

Variable Tape::input(Tensor value) { return output(std::move(value), true); }

Variable Tape::leaf(Parameter& parameter) {
  if (!records()) return constant(parameter.value);
  for (const auto& [known, id] : leaves_)
    if (known == &parameter) return {parameter.value, id};
  Variable v = input(parameter.value);
  slots_.back().parameter = &parameter;
  leaves_.emplace_back(&parameter, v.id);
  return v;
}

Variable Tape::output(Tensor value, std::initializer_list<const Variable*> inputs) {
  bool wanted = false;
  for (const Variable* input : inputs) wanted |= input && input->needs_grad();
  return output(std::move(value), wanted);
}

Variable Tape::output(Tensor value, bool needs_grad) {
  if (!needs_grad || !records()) return constant(std::move(value));
  slots_.emplace_back();
  return {std::move(value), static_cast<Index>(slots_.size()) - 1};
}

void Tape::step(const char* op, std::vector<GradSlot> outputs, Backward backward) {
  if (records()) steps_.push_back({op, std::move(outputs), std::move(backward)});
}

Grad Tape::grad_of(const GradSlot& slot) {
  if (!slot.needs_grad()) return {};
  Slot& s = slots_.at(static_cast<std::size_t>(slot.id));
  if (Parameter* const p = s.parameter) {
    if (!p->grad) p->grad = backend_.empty(slot.dtype, slot.shape);
    s.grad = p->grad;
    s.written = true;
    return {p->grad, std::exchange(p->grad_written, true)};
  }
  if (!s.grad) s.grad = backend_.empty(slot.dtype, slot.shape);
  return {s.grad, std::exchange(s.written, true)};
}

void Tape::give(const GradSlot& slot, const Tensor& gradient) {
  if (!slot.needs_grad()) return;
  MOELAB_CHECK(gradient.shape() == slot.shape && gradient.dtype() == slot.dtype,
               gradient.shape().text(), " for ", slot.shape.text());
  Slot& s = slots_.at(static_cast<std::size_t>(slot.id));
  if (!s.parameter && !s.written) {
    s.grad = gradient;
    s.written = true;
    return;
  }
  const Grad g = grad_of(slot);
  dispatch_real(slot.dtype, "give", [&]<class T>(T) {
    cpu_kernels::add_scaled(slot.shape.numel(), T(1), gradient.data<T>(), g.accumulate,
                            g.into.data<T>());
  });
}

Tensor Tape::grad(const GradSlot& slot) const {
  if (!slot.needs_grad()) return {};
  const Slot& s = slots_.at(static_cast<std::size_t>(slot.id));
  return s.written ? s.grad : Tensor{};
}

void Tape::seed(const Variable& v, double factor) {
  const Grad g = grad_of(v.slot());
  if (!g) return;
  dispatch_real(v.value.dtype(), "seed", [&]<class T>(T) {
    cpu_kernels::fill(v.value.numel(), static_cast<T>(factor), g.accumulate, g.into.data<T>());
  });
}

void Tape::seed(const Variable& v, const Tensor& gradient) {
  const Grad g = grad_of(v.slot());
  if (!g) return;
  MOELAB_CHECK(gradient.shape() == v.value.shape(), gradient.shape().text(), " for ",
               v.value.shape().text());
  dispatch_real(v.value.dtype(), "seed", [&]<class T>(T) {
    cpu_kernels::add_scaled(v.value.numel(), T(1), gradient.data<T>(), g.accumulate,
                            g.into.data<T>());
  });
}

void Tape::backward() {
  while (!steps_.empty()) {
    const Step step = std::move(steps_.back());
    steps_.pop_back();
    bool reached = false;
    for (const GradSlot& output : step.outputs) reached |= grad(output).defined();
    if (reached) {
      const double start = observer_ ? omp_get_wtime() : 0;
      step.backward(*this);
      if (observer_ && *step.op) observer_(step.op, true, omp_get_wtime() - start);
    }
    for (const GradSlot& output : step.outputs)
      if (output.needs_grad()) slots_[static_cast<std::size_t>(output.id)] = {};
  }
}

OpTimer::OpTimer(const Tape& tape, const char* op)
    : tape_(tape), op_(op), start_(tape.observer() ? omp_get_wtime() : 0) {}

OpTimer::~OpTimer() {
  if (tape_.observer()) tape_.observer()(op_, false, omp_get_wtime() - start_);
}

}  // namespace moelab
