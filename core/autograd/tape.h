// A linear tape over fused ops. An op appends one backward step when it runs; backward() walks the
// steps in reverse and frees each as it goes: no graph, no search, no recursion. The tape is
// passed, never global; one tape serves one (stage, micro-batch). First order only.
//
// Whoever composes Variables writes forward only. Whoever writes an op ends its forward with
//   Variable y = tape.output(value, {&x, &w});  // needs a gradient if an input does
//   if (y.needs_grad())
//     tape.step("name", {y.slot()}, [dx = x.slot(), dy = y.slot(), …](Tape& t) {
//       if (Grad g = t.grad_of(dx)) write g.into (= or += by g.accumulate) from t.grad(dy);
//     });
//   return y;
// and captures exactly the tensors that backward reads: what is captured is what is saved. Ask
// grad_of for a slot only when about to write it: the next one to ask adds to what was written.
#pragma once
#include <any>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/autograd/parameter.h"
#include "core/backend/backend.h"
#include "core/tensor/tensor.h"

namespace moelab {

// The identity of a Variable without its elements: where its gradient goes.
struct GradSlot {
  Index id = -1;
  DType dtype = DType::f32;
  Shape shape;
  bool needs_grad() const { return id >= 0; }
};

struct Variable {
  Tensor value;
  Index id = -1;  // −1: no gradient is wanted
  bool needs_grad() const { return id >= 0; }
  GradSlot slot() const { return {id, value.dtype(), value.shape()}; }
  explicit operator bool() const { return value.defined(); }
};

// Where an op writes a gradient: the one place that decides `=` (accumulate false) or `+=` (true).
struct Grad {
  Tensor into;  // undefined when no gradient is wanted
  bool accumulate = false;
  explicit operator bool() const { return into.defined(); }
  double beta() const { return accumulate ? 1.0 : 0.0; }
};

// What a recomputed segment must not do twice: routing plans, sums over ranks, received rows.
// Filled in order on the first pass, emptied in the same order on the second.
class SegmentMemory {
 public:
  void put(std::any value) { kept_.push_back(std::move(value)); }
  std::any take() { return std::move(kept_.at(next_++)); }

 private:
  std::vector<std::any> kept_;
  std::size_t next_ = 0;
};

class Tape {
 public:
  using Backward = std::function<void(Tape&)>;
  enum class Mode : std::uint8_t {
    gradients,  // record backward steps
    forward,    // record nothing: evaluation, generation, first pass of a recomputed segment
  };
  explicit Tape(Backend& backend, Mode mode = Mode::gradients) : backend_(backend), mode_(mode) {}
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  Backend& backend() const { return backend_; }
  bool records() const { return mode_ == Mode::gradients; }

  Variable constant(Tensor value) const { return {std::move(value), -1}; }
  Variable input(Tensor value);         // wants a gradient; read it with grad() after backward
  Variable leaf(Parameter& parameter);  // its gradient goes to parameter.grad; same id each time
  // The result of an op: wants a gradient if any input does (and the tape records).
  Variable output(Tensor value, std::initializer_list<const Variable*> inputs);
  Variable output(Tensor value, bool needs_grad);
  // `outputs`: the step is skipped when none of them has received a gradient.
  void step(const char* op, std::vector<GradSlot> outputs, Backward backward);

  Grad grad_of(const GradSlot& slot);  // {} if the slot wants none
  // Adds a finished gradient. Its storage becomes the slot's if the slot is empty, so the caller
  // passes either a tensor of its own or the gradient of its single output (as `add` does).
  void give(const GradSlot& slot, const Tensor& gradient);
  Tensor grad(const GradSlot& slot) const;  // undefined if none arrived, and for consumed outputs
  // Adds factor·gradient to a variable from outside: 1/tokens for the loss, a coefficient for a
  // balancer.
  void seed(const Variable& v, double factor);  // v is a scalar or any shape: filled
  void seed(const Variable& v, const Tensor& gradient);
  void backward();
  std::size_t steps() const { return steps_.size(); }

  // Runs `make` and returns its value; inside a recomputed segment the second pass returns the
  // value of the first instead. For everything that must not be repeated (collectives, plans).
  template <class F>
  auto remember(F&& make) -> decltype(make()) {
    using T = decltype(make());
    T value = replay_ ? std::any_cast<T>(replay_->take()) : make();
    if (memory_) memory_->put(value);
    return value;
  }
  bool replaying() const { return replay_ != nullptr; }  // second pass of a recomputed segment

  // Called with the op's name and seconds by OpTimer after every forward and by backward() after
  // every step: bench.
  using Observer = std::function<void(const char* op, bool backward, double seconds)>;
  void observe(Observer observer) { observer_ = std::move(observer); }
  const Observer& observer() const { return observer_; }

 private:
  friend class Recompute;
  struct Step {
    const char* op;
    std::vector<GradSlot> outputs;
    Backward backward;
  };
  struct Slot {
    Tensor grad;
    Parameter* parameter = nullptr;
    bool written = false;
  };
  Backend& backend_;
  Mode mode_;
  std::vector<Step> steps_;
  std::vector<Slot> slots_;
  std::vector<std::pair<Parameter*, Index>> leaves_;
  std::shared_ptr<SegmentMemory> memory_;  // where remember() puts: first pass
  std::shared_ptr<SegmentMemory> replay_;  // where remember() takes: second pass
  Observer observer_;
};

// One node for a whole segment: keeps only the inputs, runs `segment` again when gradients arrive.
// Bit-equal to not recomputing, since forward is pure. `segment` may use Variables only through its
// inputs and parameters only through leaf() of the tape it is given. Its side effects (records)
// must be guarded by !tape.replaying(). Outputs may include scalars (balancing losses).
using Segment = std::function<std::vector<Variable>(Tape&, const std::vector<Variable>&)>;
std::vector<Variable> recompute(Tape& tape, const std::vector<Variable>& inputs,
                                const Segment& segment);

// Times one op for the tape's observer: `const OpTimer timer(tape, "linear");` first in the lift.
class OpTimer {
 public:
  OpTimer(const Tape& tape, const char* op);
  ~OpTimer();
  OpTimer(const OpTimer&) = delete;
  OpTimer& operator=(const OpTimer&) = delete;

 private:
  const Tape& tape_;
  const char* op_;
  double start_ = 0;
};

}  // namespace moelab
