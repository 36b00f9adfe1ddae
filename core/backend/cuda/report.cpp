// The exported function of libmoelab_cuda.so: which CUDA this is, and whether there is a GPU.
// Without a driver every call here fails cleanly, and that is a report, not an error.
#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstdio>

#include "core/backend/cuda_abi.h"

extern "C" __attribute__((visibility("default"))) void moelab_cuda_report(
    moelab::CudaReport* report) {
  *report = {};
  report->abi = moelab::kCudaAbi;
  cudaRuntimeGetVersion(&report->runtime);
  cudaDriverGetVersion(&report->driver);
  cublasGetProperty(MAJOR_VERSION, &report->cublas[0]);
  cublasGetProperty(MINOR_VERSION, &report->cublas[1]);
  cublasGetProperty(PATCH_LEVEL, &report->cublas[2]);
  ncclGetVersion(&report->nccl);

  int devices = 0;  // not written when the call fails
  const cudaError_t error = cudaGetDeviceCount(&devices);
  if (error != cudaSuccess) {
    cudaGetLastError();  // clears it
    std::snprintf(report->problem, sizeof report->problem, "%s", cudaGetErrorString(error));
    return;
  }
  report->devices = devices;
  cudaDeviceProp properties{};
  if (devices > 0 && cudaGetDeviceProperties(&properties, 0) == cudaSuccess)
    std::snprintf(report->device, sizeof report->device, "%s", properties.name);
  else
    std::snprintf(report->problem, sizeof report->problem, "no device is visible");
}
