#include "registry/component.h"

namespace moelab {

void Slot::describe(ParamVisitor& visitor) {
  if (base_ && params_) base_->describe(params_.get(), visitor);
}

std::string Slot::formula() const {
  return base_ && params_ ? base_->formula(params_.get()) : std::string();
}

}  // namespace moelab
