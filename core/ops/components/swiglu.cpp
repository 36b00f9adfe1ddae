// SwiGLU. (Shazeer 2020)
#include "core/ops/activation_rows.h"
#include "registry/registry.h"

namespace moelab {
namespace {

using SwiGlu = FormulaActivation<cpu_kernels::SiluFormula, true>;
const Register<Activation, SwiGlu> registered{"swiglu", "silu(gate) · up"};

}  // namespace
}  // namespace moelab
