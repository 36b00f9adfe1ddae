// Squared ReLU. (So et al. 2021)
#include "core/ops/activation_rows.h"
#include "registry/registry.h"

namespace moelab {
namespace {

using Relu2 = FormulaActivation<cpu_kernels::Relu2Formula, false>;
const Register<Activation, Relu2> registered{"relu2", "max(x, 0)²"};

}  // namespace
}  // namespace moelab
