// Matrix products. C_MN = alpha·op(A)·op(B) + beta·C, all row-major. f32 goes to oneDNN, one thread
// a call; f64 to a small kernel of our own. The parallel forms cut rows into tiles at fixed places,
// so that the number of threads cannot change a bit.
#pragma once
#include "core/backend/backend.h"

namespace moelab {

constexpr Index kGemmRowTile = 256;     // rows of C a work item computes
constexpr Index kGemmColumnTile = 256;  // columns, when there are fewer than kGemmEnoughTiles
constexpr Index kGemmEnoughTiles = 8;   // row tiles
constexpr Index kGemmWeightTile = 128;  // rows of C a work item of gemm_long_sum computes
constexpr Index kGemmSumChunk = 1024;   // terms of the sum it adds up

template <class T>  // float or double
struct GemmArgs {
  bool transpose_a = false, transpose_b = false;
  Index m = 0, n = 0, k = 0;
  T alpha = T(1);
  const T* a = nullptr;  // [m, k], or [k, m] if transpose_a
  Index lda = 0;         // elements between rows as stored
  const T* b = nullptr;  // [k, n], or [n, k] if transpose_b
  Index ldb = 0;
  T beta = T(0);  // 0: C is only written
  T* c = nullptr;
  Index ldc = 0;
};

template <class T>
void gemm_one_thread(const GemmArgs<T>& args);  // on the calling thread

template <class T>
void gemm(
    const GemmArgs<T>& args);  // over row tiles (and column tiles when rows are few), threads()

// gemm for a small C and a long sum (weight gradients): cut along the sum as well. The pieces are
// added in order.
template <class T>
void gemm_long_sum(const Backend& backend, const GemmArgs<T>& args);

const char* gemm_library();  // "oneDNN 2.6.3" for --version and doctor
std::string gemm_kernels();  // which kernels this CPU gets, and who chose them

}  // namespace moelab
