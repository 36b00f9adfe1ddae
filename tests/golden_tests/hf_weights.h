// Where the weights of our layer stand in a Hugging Face block: one strided slice of one of its
// tensors each. E experts, I expert width, H hidden.
#pragma once
#include <map>
#include <string>

#include "core/autograd/parameter.h"
#include "tests/golden_tests/suite.h"

namespace moelab::test {

// The name of the gate's projection: "gate", "router.layer", …
std::string hf_gate(const GoldenCase& c);

class HfWeights {
 public:
  explicit HfWeights(const GoldenCase& c);
  Index expert_width() const;
  bool expert_bias() const;
  Index shared_width() const;

  // Sets every piece of a parameter of the layer called "layer".
  void load(const Backend& backend, const Parameter& p) const;
  struct Compared {
    Values got, want;
  };
  // Adds the parameter's gradient, by the tensor of theirs that it is a part of.
  void gradients(const Parameter& p, std::map<std::string, Compared>& into) const;

 private:
  struct Slice {
    std::string tensor;
    Index offset = 0, row_stride = 1, column_stride = 0;
  };
  Slice slice(const std::string& piece, const Shape& shape) const;
  Slice expert_slice(Index e, const std::string& projection, bool bias, const Shape& shape) const;
  Values read(const std::string& kind, const Slice& slice, const Shape& shape) const;
  std::string projection_name(const std::string& ours) const;

  const GoldenCase& c_;
  std::string layout_, shared_prefix_;
  bool w123_ = false;
};

}  // namespace moelab::test
