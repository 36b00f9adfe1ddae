// A trained tensor as this rank holds it, and the declarations from which everything else follows:
// its global names (checkpoints, init), where it lives (gradient reduction, norm) and how it is
// optimised. E experts (e on this rank), H hidden width, F ffn width.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/backend/backend.h"
#include "core/tensor/tensor.h"

namespace moelab {

// dense: every rank of the data-parallel group holds all of it. expert: the ranks of an
// expert-parallel group hold different experts; the expert-data-parallel group holds copies.
enum class Placement : std::uint8_t { dense, expert };

// A named part of a parameter: one tensor of a checkpoint. `view` shares the parameter's storage.
// The global name never depends on the layout: experts carry their global id.
struct Piece {
  std::string name;  // "model.layers.0.mlp.experts.3.up_proj.weight"
  Tensor value;      // contiguous view
};

// Initial values: a pure function of (model seed, piece name, index in the piece).
struct Init {
  enum class Kind : std::uint8_t { zeros, ones, normal } kind = Kind::normal;
  double std = 0.02;
};

class Parameter {
 public:
  std::string name;           // of the whole, for messages and optimizer rules
  Tensor value;               // [..]
  Tensor grad;                // like value; defined from the first backward on
  bool grad_written = false;  // false: the next writer overwrites; cleared by the optimizer step
  Placement placement = Placement::dense;
  std::vector<Piece> pieces;  // disjoint, together all of value
  Init init;
  bool decay = true;  // weight decay by default: false for norms and biases

  // The parts of a tensor of value's shape (gradient, optimizer state) that correspond to pieces.
  std::vector<Tensor> split(const Tensor& like) const;
};

// Makes a parameter of one piece.
Parameter make_parameter(const Backend& backend, DType dtype, std::string name, Shape shape,
                         Init init, bool decay, Placement placement = Placement::dense);
// Fills value from the init rule.
void initialize(const Parameter& parameter, std::uint64_t seed);

// Something that owns parameters.
class Module {
 public:
  virtual ~Module() = default;
  // Visits every parameter in a fixed order that does not depend on the layout.
  virtual void parameters(const std::function<void(Parameter&)>& visit) = 0;
};

}  // namespace moelab
