// ReLU.
#include "core/ops/activation_rows.h"
#include "registry/registry.h"

namespace moelab {
namespace {

using Relu = FormulaActivation<cpu_kernels::ReluFormula, false>;
const Register<Activation, Relu> registered{"relu", "max(x, 0)"};

}  // namespace
}  // namespace moelab
