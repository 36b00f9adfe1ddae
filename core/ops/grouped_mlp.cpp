#include "core/ops/grouped_mlp.h"

#include <algorithm>

#include "core/backend/tile_kernels.h"
#include "core/ops/grouped_mlp_variants.h"
#include "core/ops/inverse_index.h"
#include "core/ops/permute.k.h"
#include "registry/text.h"

namespace moelab {

bool has_packed_mlp() { return tile_kernels() != nullptr; }

namespace {

// Sums up to this length are too short to pay for the result tiles that packed ones go through: the
// library is up to a tenth faster at H = F = 128, equal to an eighth slower at 256.
constexpr Index kShortSum = 128;

bool takes_packed(const GroupedMlpArgs<float>& args) {
  if (args.variant == MlpVariant::automatic)
    return has_packed_mlp() && std::max(args.hidden, args.width) > kShortSum;
  MOELAB_CHECK(args.variant == MlpVariant::library || has_packed_mlp(),
               "this CPU has no packed kernels");
  return args.variant == MlpVariant::packed;
}

}  // namespace

std::string grouped_mlp_variant() {
  const TileKernels<float>* kernels = tile_kernels();
  return kernels ? str("packed (own kernels for ", kernels->name, "), library for f64 and where ",
                       "hidden and width are at most ", kShortSum)
                 : "library (this CPU lacks AVX-512, which our own kernels need)";
}

template <>
void grouped_mlp_forward(const Backend& backend, const GroupedMlpArgs<float>& args, float* h_RG,
                         float* y_RH) {
  (takes_packed(args) ? packed_mlp_forward : library_mlp_forward<float>)(backend, args, h_RG, y_RH);
}
template <>
void grouped_mlp_backward(const Backend& backend, const GroupedMlpArgs<float>& args, float* h_RG,
                          const float* dy_RH, const GroupedMlpGrads<float>& grads) {
  (takes_packed(args) ? packed_mlp_backward : library_mlp_backward<float>)(backend, args, h_RG,
                                                                           dy_RH, grads);
}
template <>
void grouped_mlp_forward(const Backend& backend, const GroupedMlpArgs<double>& args, double* h_RG,
                         double* y_RH) {
  library_mlp_forward(backend, args, h_RG, y_RH);
}
template <>
void grouped_mlp_backward(const Backend& backend, const GroupedMlpArgs<double>& args, double* h_RG,
                          const double* dy_RH, const GroupedMlpGrads<double>& grads) {
  library_mlp_backward(backend, args, h_RG, dy_RH, grads);
}

template <class T>
void sum_source_rows(const Backend& backend, const GroupedMlpArgs<T>& args, const T* dx_RH,
                     const GradInto<T>& grad) {
  const InverseIndex inverse = invert(backend, args.sources, args.row_R, args.rows);
  cpu_kernels::sum_rows<T>(args.sources, args.hidden, dx_RH, inverse.offset_S1.data<Index>(),
                           inverse.row_R.data<std::int32_t>(), grad.beta != T(0), grad.into);
}
template void sum_source_rows(const Backend&, const GroupedMlpArgs<float>&, const float*,
                              const GradInto<float>&);
template void sum_source_rows(const Backend&, const GroupedMlpArgs<double>&, const double*,
                              const GradInto<double>&);

}  // namespace moelab
