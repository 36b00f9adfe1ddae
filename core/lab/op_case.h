// Op cases: each op is declared once, with its inputs and how to call it, in core/lab/op_cases/.
// From the declaration follow the checks of op_checks.h (run by tests/ops) and a line of `moelab
// bench ops`. A file registers its cases like a component:
//   const RegisterOpCase registered{"linear", [](OpSize size) -> OpInstance { … }};
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/autograd/tape.h"
#include "core/tensor/tensor.h"

namespace moelab {

enum class OpSize : std::uint8_t {
  small,  // odd sizes, a few hundred elements: gradients and precision
  large,  // what a step of training sees, at most about 1 GFLOP: threads and bench
};

struct OpInput {
  Shape shape;
  double low = -1, high = 1;  // uniform in [low, high]; integers inclusive
  bool needs_grad = true;     // reals only
  DType dtype = DType::f32;   // f32 stands for the dtype of the run; i32, i64 and u8 are themselves

  static OpInput real(Shape shape, double low = -1, double high = 1) { return {shape, low, high}; }
  static OpInput constant(Shape shape, double low = -1, double high = 1) {
    return {shape, low, high, false};
  }
  static OpInput integers(DType dtype, Shape shape, double low, double high) {
    return {shape, low, high, false, dtype};
  }
};

struct OpCost {  // of one pass in f32
  double flops = 0, bytes = 0;
};

struct OpInstance {  // a case at one size
  std::vector<OpInput> inputs;
  // Calls the op; integers arrive as constants. Outputs without gradient are compared as well.
  std::function<std::vector<Variable>(Tape&, const std::vector<Variable>&)> build;
  OpCost forward, backward;
  // Elements of the run dtype that stay alive for backward beside the inputs once the outputs are
  // dropped; −1: not declared.
  Index saved_elements = -1;
};

struct OpCase {
  std::string name;
  std::function<OpInstance(OpSize)> instance;
};

const std::vector<OpCase>& op_cases();  // by name

struct RegisterOpCase {
  RegisterOpCase(std::string_view name, std::function<OpInstance(OpSize)> instance);
};

// The inputs' values: a pure function of the case's name, representable in f32.
std::vector<Tensor> op_inputs(const OpCase& op, const OpInstance& instance, const Backend& backend,
                              DType dtype);

// The weights with which outputs enter the scalar that checks and bench differentiate: uniform in
// [−1, 1], like `output`.
Tensor op_cotangent(const Backend& backend, const Tensor& output, std::size_t output_index);

struct OpRun {
  std::vector<Tensor> outputs;
  std::vector<Tensor> gradients;  // one an input, undefined where none is wanted
};
// Forward and backward. `initial`: gradients that the inputs already have, or empty.
OpRun run_op(const OpInstance& instance, const std::vector<Tensor>& inputs, Backend& backend,
             const std::vector<Tensor>& initial = {});
// Inputs as Variables on `tape`.
std::vector<Variable> op_variables(Tape& tape, const OpInstance& instance,
                                   const std::vector<Tensor>& inputs);

}  // namespace moelab
