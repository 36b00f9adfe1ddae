// GELU with the exact erf. (Hendrycks & Gimpel 2016)
#include "core/ops/activation_rows.h"
#include "registry/registry.h"

namespace moelab {
namespace {

using Gelu = FormulaActivation<cpu_kernels::GeluFormula, false>;
const Register<Activation, Gelu> registered{"gelu", "x · Φ(x), by the exact erf"};

}  // namespace
}  // namespace moelab
