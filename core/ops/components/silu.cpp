// SiLU, also called swish. (Elfwing et al. 2017)
#include "core/ops/activation_rows.h"
#include "registry/registry.h"

namespace moelab {
namespace {

using Silu = FormulaActivation<cpu_kernels::SiluFormula, false>;
const Register<Activation, Silu> registered{"silu", "x · sigmoid(x)"};

}  // namespace
}  // namespace moelab
