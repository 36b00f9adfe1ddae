// The training suite's params as a recipe: a model of transformers, or the suite's plain one.
#pragma once
#include <string>

#include "core/tensor/dtype.h"
#include "tests/golden_tests/suite.h"

namespace moelab::test {

class TrainingRecipe {
 public:
  explicit TrainingRecipe(const GoldenCase& c);
  std::string text(DType dtype, const std::string& data_path) const;

  std::string missing;  // what does not exist; "": nothing
  Index vocabulary = 0, steps = 0, dense_layers = 0;

 private:
  std::string model_, rest_;
};

}  // namespace moelab::test
