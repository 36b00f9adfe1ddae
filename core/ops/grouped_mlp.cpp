#include "core/ops/grouped_mlp.h"

#include "core/backend/tile_kernels.h"
#include "core/ops/grouped_mlp_variants.h"
#include "core/ops/inverse_index.h"
#include "core/ops/permute.k.h"
#include "registry/text.h"

namespace moelab {

bool has_packed_mlp() { return tile_kernels() != nullptr; }

std::string grouped_mlp_variant() {
  const TileKernels<float>* kernels = tile_kernels();
  return kernels ? str("packed (own kernels for ", kernels->name, "; f64: library)")
                 : "library (this CPU lacks AVX-512, which our own kernels need)";
}

template <>
void grouped_mlp_forward(const Backend& backend, const GroupedMlpArgs<float>& args, float* h_RG,
                         float* y_RH) {
  if (args.variant == MlpVariant::library || !has_packed_mlp()) {
    MOELAB_CHECK(args.variant != MlpVariant::packed, "this CPU has no packed kernels");
    return library_mlp_forward(backend, args, h_RG, y_RH);
  }
  packed_mlp_forward(backend, args, h_RG, y_RH);
}
template <>
void grouped_mlp_backward(const Backend& backend, const GroupedMlpArgs<float>& args, float* h_RG,
                          const float* dy_RH, const GroupedMlpGrads<float>& grads) {
  if (args.variant == MlpVariant::library || !has_packed_mlp())
    return library_mlp_backward(backend, args, h_RG, dy_RH, grads);
  packed_mlp_backward(backend, args, h_RG, dy_RH, grads);
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
