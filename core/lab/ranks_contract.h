// The contract "ranks": two ranks give the results of one.
#pragma once
#include <string>

#include "core/lab/contracts.h"

namespace moelab {

// "" if kept: outputs, losses, and the gradients of every parameter, summed over the ranks.
std::string ranks_broken(const ContractSubject& subject);

// "" or by how much `got` misses `want`, the same numbers summed in another order.
std::string differs(const Tensor& got, const Tensor& want, const std::string& what);

}  // namespace moelab
