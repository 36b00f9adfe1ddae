// ReGLU. (Shazeer 2020)
#include "core/ops/activation_rows.h"
#include "registry/registry.h"

namespace moelab {
namespace {

using ReGlu = FormulaActivation<cpu_kernels::ReluFormula, true>;
const Register<Activation, ReGlu> registered{"reglu", "max(gate, 0) · up"};

}  // namespace
}  // namespace moelab
