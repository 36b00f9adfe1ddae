// The one C function that libmoelab_cuda.so exports. Plain data only: it crosses a dlopen.
#pragma once

namespace moelab {

struct CudaReport {
  int abi = 0;             // of the plugin: kCudaAbi
  int runtime = 0;         // 13000 = 13.0
  int driver = 0;          // 0: no driver
  int cublas[3] = {};      // major, minor, patch
  int nccl = 0;            // 22809 = 2.28.9
  int devices = 0;         // usable GPUs
  char device[256] = {};   // name of the first
  char problem[256] = {};  // why there is none
};

constexpr int kCudaAbi = 1;
constexpr const char* kCudaReportName = "moelab_cuda_report";
using CudaReportFunction = void (*)(CudaReport*);

}  // namespace moelab
