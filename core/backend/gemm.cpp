#include "core/backend/gemm.h"

#include <omp.h>
#include <oneapi/dnnl/dnnl.h>

#include <algorithm>

#include "core/backend/gemm_f64.h"
#include "core/base/signal_stack.h"
#include "core/base/threads.h"

namespace moelab {
namespace {

// oneDNN takes its number of threads from OpenMP; a threaded dnnl_sgemm may differ in bits.
class OneThread {
 public:
  OneThread() : before_(omp_get_max_threads()) {
    if (before_ != 1) omp_set_num_threads(1);
  }
  ~OneThread() {
    if (before_ != 1) omp_set_num_threads(before_);
  }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

template <class T>
void scale_rows(const GemmArgs<T>& g) {  // the product is empty: C = beta·C
  for (Index i = 0; i < g.m; ++i)
    for (Index j = 0; j < g.n; ++j) {
      T& c = g.c[i * g.ldc + j];
      c = g.beta == T(0) ? T(0) : g.beta * c;
    }
}

}  // namespace

template <>
void gemm_one_thread(const GemmArgs<float>& g) {
  if (g.m == 0 || g.n == 0) return;
  if (g.k == 0) return scale_rows(g);
  use_signal_stack();
  const OneThread guard;
  const dnnl_status_t status =
      dnnl_sgemm(g.transpose_a ? 'T' : 'N', g.transpose_b ? 'T' : 'N', g.m, g.n, g.k, g.alpha, g.a,
                 g.lda, g.b, g.ldb, g.beta, g.c, g.ldc);
  MOELAB_CHECK(status == dnnl_success, "dnnl_sgemm returned ", static_cast<int>(status), " for m ",
               g.m, " n ", g.n, " k ", g.k, " lda ", g.lda, " ldb ", g.ldb, " ldc ", g.ldc);
}

template <>
void gemm_one_thread(const GemmArgs<double>& g) {
  if (g.m == 0 || g.n == 0) return;
  if (g.k == 0) return scale_rows(g);
  gemm_f64(g);
}

template <class T>
void gemm(const GemmArgs<T>& g) {
  // Few rows: columns are cut as well, so that every thread has work.
  const Index row_tiles = (g.m + kGemmRowTile - 1) / kGemmRowTile;
  const Index column_tile =
      row_tiles >= kGemmEnoughTiles ? std::max<Index>(1, g.n) : kGemmColumnTile;
  const Index column_tiles = (g.n + column_tile - 1) / column_tile;
  parallel_items(row_tiles * column_tiles, [&](Index item) {
    const Index i = item / column_tiles * kGemmRowTile, j = item % column_tiles * column_tile;
    GemmArgs<T> tile = g;
    tile.m = std::min(kGemmRowTile, g.m - i);
    tile.n = std::min(column_tile, g.n - j);
    tile.a += g.transpose_a ? i : i * g.lda;
    tile.b += g.transpose_b ? j * g.ldb : j;
    tile.c += i * g.ldc + j;
    gemm_one_thread(tile);
  });
}
template void gemm(const GemmArgs<float>&);
template void gemm(const GemmArgs<double>&);

template <class T>
void gemm_long_sum(const Backend& backend, const GemmArgs<T>& g) {
  const Index row_tiles = (g.m + kGemmWeightTile - 1) / kGemmWeightTile, size = g.m * g.n;
  const Index chunks =
      row_tiles >= kGemmEnoughTiles || g.k == 0 ? 1 : (g.k + kGemmSumChunk - 1) / kGemmSumChunk;
  const Index chunk_terms = chunks == 1 ? g.k : kGemmSumChunk;
  const Tensor pieces = backend.empty(DTypeOf<T>::value, {(chunks - 1) * size});  // 1, 2, …
  parallel_items(row_tiles * chunks, [&](Index item) {
    const Index chunk = item / row_tiles, k = chunk * chunk_terms;
    const Index i = item % row_tiles * kGemmWeightTile;
    GemmArgs<T> tile = g;
    tile.m = std::min(kGemmWeightTile, g.m - i);
    tile.k = std::min(chunk_terms, g.k - k);
    tile.a += g.transpose_a ? k * g.lda + i : i * g.lda + k;
    tile.b += g.transpose_b ? k : k * g.ldb;
    if (chunk == 0) {
      tile.c += i * g.ldc;
    } else {
      tile.beta = T(0);
      tile.c = pieces.data<T>() + (chunk - 1) * size + i * g.n;
      tile.ldc = g.n;
    }
    gemm_one_thread(tile);
  });
  if (chunks == 1) return;
  parallel_ranges(g.m, std::max<Index>(1, kGemmSumChunk * 16 / (chunks * std::max<Index>(1, g.n))),
                  [&](Index begin, Index end) {
                    for (Index i = begin; i < end; ++i)
                      for (Index c = 0; c < chunks - 1; ++c) {
                        const T* from = pieces.data<T>() + c * size + i * g.n;
                        for (Index j = 0; j < g.n; ++j) g.c[i * g.ldc + j] += from[j];
                      }
                  });
}
template void gemm_long_sum(const Backend&, const GemmArgs<float>&);
template void gemm_long_sum(const Backend&, const GemmArgs<double>&);

const char* gemm_library() {
  static const std::string text = [] {
    const dnnl_version_t* v = dnnl_version();
    return str("oneDNN ", v->major, ".", v->minor, ".", v->patch);
  }();
  return text.c_str();
}

std::string gemm_kernels() {
  const auto isa = static_cast<unsigned>(dnnl_get_effective_cpu_isa());
  const char* name = "SSE4.1 (slow: no AVX2)";
  if ((isa & dnnl_cpu_isa_avx512_core) == dnnl_cpu_isa_avx512_core)
    name = "AVX-512";
  else if ((isa & dnnl_cpu_isa_avx2) == dnnl_cpu_isa_avx2)
    name = "AVX2";
  return str("f32 by ", gemm_library(), " (sgemm, one thread a call), which chose its ", name,
             " kernels for this CPU; f64 by our own kernel, compiled with this binary's flags");
}

}  // namespace moelab
