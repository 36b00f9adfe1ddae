// GeGLU with the exact erf. (Shazeer 2020)
#include "core/ops/activation_rows.h"
#include "registry/registry.h"

namespace moelab {
namespace {

using GeGlu = FormulaActivation<cpu_kernels::GeluFormula, true>;
const Register<Activation, GeGlu> registered{"geglu", "gelu(gate) · up, gelu by the exact erf"};

}  // namespace
}  // namespace moelab
