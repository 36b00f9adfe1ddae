#include "core/backend/cuda_plugin.h"

#include <dlfcn.h>

#include <filesystem>

#include "core/backend/cuda_abi.h"
#include "registry/text.h"

namespace moelab {
namespace {

std::string plugin_path() {
  Dl_info self{};
  if (::dladdr(reinterpret_cast<const void*>(&cuda_plugin), &self) == 0) return {};
  return (std::filesystem::path(self.dli_fname).parent_path() / "libmoelab_cuda.so").string();
}

std::string version(int major, int minor) { return str(major, ".", minor); }

std::string describe(const CudaReport& report) {
  std::string text =
      str("runtime ", version(report.runtime / 1000, report.runtime % 1000 / 10), ", cuBLAS ",
          version(report.cublas[0], report.cublas[1]), ".", report.cublas[2], ", NCCL ",
          version(report.nccl / 10000, report.nccl % 10000 / 100), ".", report.nccl % 100);
  if (report.devices == 0) return str(text, "; no usable GPU: ", report.problem);
  return str(text, ", driver ", version(report.driver / 1000, report.driver % 1000 / 10), "; ",
             report.devices, " GPU: ", report.device);
}

CudaPlugin load() {
  const std::string path = plugin_path();
  if (!std::filesystem::exists(path))
    return {false, 0,
            str("not built (", path,
                " is missing); cmake --preset cuda && cmake --build --preset cuda "
                "builds it, with nvcc, cuBLAS and NCCL installed")};
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);  // never unloaded
  if (library == nullptr) return {false, 0, str("cannot be loaded: ", ::dlerror())};
  const auto report_of = reinterpret_cast<CudaReportFunction>(::dlsym(library, kCudaReportName));
  CudaReport report;
  if (report_of != nullptr) report_of(&report);
  if (report.abi != kCudaAbi)
    return {false, 0, str(path, " belongs to another version of moelab; build it again")};
  return {true, report.devices, describe(report)};
}

}  // namespace

const CudaPlugin& cuda_plugin() {
  static const CudaPlugin plugin = load();
  return plugin;
}

}  // namespace moelab
