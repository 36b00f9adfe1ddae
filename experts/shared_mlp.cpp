#include "experts/shared_mlp.h"

#include "core/autograd/functions.h"

namespace moelab {

Variable SharedMlp::forward(Tape& tape, const Variable& x_TH, const Variable& weight_T) {
  const auto offset =
      std::make_shared<std::vector<Index>>(std::vector<Index>{0, x_TH.value.size(0)});
  return grouped_mlp(tape, x_TH, nullptr, offset, weight_T ? &weight_T : nullptr,
                     weights_.on(tape, *activation_));
}

}  // namespace moelab
