// One body, two machines. for_each runs body(i) for i in [0, n); for_each_row gives every row a
// Team (one lane on the CPU, a warp on a GPU) with lane-strided loops and reductions. A *.k.cpp
// file may include only this header, the standard library's <cmath> family and kernel headers
// (*.k.h), and puts its functions in MOELAB_KERNELS, so that each backend's copy has a namespace of
// its own.
#pragma once
#include <cstdint>

#if defined(__CUDACC__)
#define MOELAB_HD __host__ __device__
#define MOELAB_KERNELS cuda_kernels
#include "core/backend/for_each_cuda.h"
#else
#define MOELAB_HD
#define MOELAB_KERNELS cpu_kernels
#include "core/backend/for_each_cpu.h"
#endif
