// What there is of CUDA on this machine, found out by loading libmoelab_cuda.so (preset `cuda`)
// from the folder of libmoelab.so. The CUDA libraries cost 80 ms a start, so nothing links them and
// the plugin is loaded only when asked for.
#pragma once
#include <string>

namespace moelab {

struct CudaPlugin {
  bool loaded = false;
  int devices = 0;
  std::string text;  // one line: versions and devices, or what is missing and how to get it
};
const CudaPlugin& cuda_plugin();  // loads it once

}  // namespace moelab
