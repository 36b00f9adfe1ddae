#include <map>

#include "core/autograd/tape.h"

namespace moelab {

// Both passes of a recomputed segment. The second pass's inputs share the outer tape's gradient
// slots, so that every `+=` happens in the order it would have had without recomputing.
class Recompute {
 public:
  static std::vector<Variable> forward(Tape& tape, const std::vector<Variable>& inputs,
                                       const Segment& segment) {
    auto memory = std::make_shared<SegmentMemory>();
    std::vector<Variable> outputs;
    {
      Tape first(tape.backend_, Tape::Mode::forward);
      first.memory_ = memory;
      first.replay_ = tape.replay_;
      first.observer_ = tape.observer_;
      std::vector<Variable> constants;
      for (const Variable& input : inputs) constants.push_back(first.constant(input.value));
      for (Variable& y : segment(first, constants))
        outputs.push_back(y ? tape.output(std::move(y.value), true) : Variable{});
    }
    std::vector<GradSlot> slots;
    for (const Variable& y : outputs) slots.push_back(y ? y.slot() : GradSlot{});
    tape.step("", slots, [inputs, segment, slots, memory](Tape& outer) {
      second_pass(outer, inputs, segment, slots, memory);
    });
    return outputs;
  }

 private:
  static void second_pass(Tape& outer, const std::vector<Variable>& inputs, const Segment& segment,
                          const std::vector<GradSlot>& slots,
                          const std::shared_ptr<SegmentMemory>& memory) {
    Tape again(outer.backend_);
    again.replay_ = memory;
    again.observer_ = outer.observer_;
    std::map<Index, Index> inner_of;  // outer id → id on `again`
    std::vector<Variable> again_inputs;
    for (const Variable& input : inputs) {
      Variable v = again.constant(input.value);
      if (input.needs_grad()) {
        const auto [at, fresh] = inner_of.try_emplace(input.id, -1);
        if (fresh) at->second = again.input(input.value).id;
        v.id = at->second;
      }
      again_inputs.push_back(std::move(v));
    }
    const std::vector<Variable> outputs = segment(again, again_inputs);
    MOELAB_CHECK(outputs.size() == slots.size(), outputs.size(), " outputs, first ", slots.size());
    for (const auto& [outer_id, id] : inner_of) slot(again, id) = slot(outer, outer_id);
    for (std::size_t i = 0; i < outputs.size(); ++i)
      if (const Tensor dy = outer.grad(slots[i])) again.give(outputs[i].slot(), dy);
    again.backward();
    for (const auto& [outer_id, id] : inner_of) slot(outer, outer_id) = slot(again, id);
  }
  static Tape::Slot& slot(Tape& tape, Index id) {
    return tape.slots_.at(static_cast<std::size_t>(id));
  }
};

std::vector<Variable> recompute(Tape& tape, const std::vector<Variable>& inputs,
                                const Segment& segment) {
  if (!tape.records()) return segment(tape, inputs);
  return Recompute::forward(tape, inputs, segment);
}

}  // namespace moelab
