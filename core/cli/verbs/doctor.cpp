// moelab doctor: what this machine and this build offer, and what a run will use.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <ostream>
#include <sstream>

#include "core/backend/cuda_plugin.h"
#include "core/backend/gemm.h"
#include "core/base/memory.h"
#include "core/base/threads.h"
#include "core/cli/options.h"
#include "core/cli/version.h"
#include "core/ops/grouped_mlp.h"
#include "registry/registry.h"
#include "registry/text.h"

namespace moelab {
namespace {

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line.empty() ? "unknown" : line;
}

std::string gigabytes(double bytes) {
  std::ostringstream text;
  text.precision(1);
  text << std::fixed << bytes / (1024.0 * 1024.0 * 1024.0) << " GiB";
  return text.str();
}

std::string memory_lines() {
  const double page = static_cast<double>(::sysconf(_SC_PAGESIZE));
  const double all = static_cast<double>(::sysconf(_SC_PHYS_PAGES)) * page;
  const double free = std::min(all, static_cast<double>(available_memory()));
  std::string text = str("memory: ", gigabytes(all), ", a run can have ", gigabytes(free), " now");
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    text += str(", limited to ", gigabytes(static_cast<double>(limit.rlim_cur)), " (ulimit -v)");
  return text + "\n";
}

// "always [madvise] never": the bracketed word is in force.
std::string huge_page_line() {
  const std::string mode = first_line("/sys/kernel/mm/transparent_hugepage/enabled");
  if (mode.find("[never]") != std::string::npos)
    return str("huge pages: ", mode, "; large tensors use 4 KiB pages, slower to touch first\n");
  if (mode == "unknown") return "huge pages: this kernel does not tell\n";
  return str("huge pages: ", mode, "; large tensors ask for them\n");
}

std::string disk_line() {
  std::error_code error;
  const auto space = std::filesystem::space(".", error);
  if (error) return "";
  return str("disk: ", gigabytes(static_cast<double>(space.available)), " free here\n");
}

std::string component_line() {
  std::size_t members = 0;
  for (const auto& [name, family] : families()) members += family->members().size();
  return str("components: ", members, " in ", families().size(), " families\n");
}

int run(const Arguments&, const Streams& streams) {
  streams.out << version_text() << "GEMM: " << gemm_kernels()
              << "\nexperts: " << grouped_mlp_variant() << "\nthreads: " << hardware_threads()
              << " usable; --threads is the total of a process, each rank gets its share\n"
              << memory_lines() << huge_page_line() << disk_line() << component_line()
              << "CUDA: " << cuda_plugin().text << "\n";
  return 0;
}

const RegisterVerb registered{{.name = "doctor",
                               .summary = "what this machine and this build offer to a run",
                               .positionals = {},
                               .options = {},
                               .notes = "",
                               .run = run}};

}  // namespace
}  // namespace moelab
