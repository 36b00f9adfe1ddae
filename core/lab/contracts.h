// What every component of a MoE layer must keep, whoever wrote it: library code that finds its
// subjects through the registry. A contract puts the subject into a small MoE layer whose other
// components are the defaults.
#pragma once
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/moe/moe_layer.h"

namespace moelab {

struct ContractSubject {
  std::string family, name;  // "router", "softmax"
  MoeParams params;          // a layer with the subject, defaults elsewhere
  const EntryBase* entry = nullptr;
};

struct Contract {
  std::string name, doc;
  // "" if kept, else what broke, with numbers.
  std::function<std::string(const ContractSubject&)> broken;
};

// Every registered router, balancer, dropper, dispatcher and experts, with default parameters.
std::vector<ContractSubject> contract_subjects();
std::span<const Contract> contracts();

}  // namespace moelab
