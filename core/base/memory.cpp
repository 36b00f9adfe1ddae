#include "core/base/memory.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <sstream>

namespace moelab {
namespace {

constexpr std::size_t kAny = std::numeric_limits<std::size_t>::max();

struct Controller {  // files of one version of control groups
  const char *mount, *limit, *usage;
  const char *active_file, *inactive_file;  // in memory.stat: cached files, given up when needed
};
constexpr Controller kVersion1{"/sys/fs/cgroup/memory", "memory.limit_in_bytes",
                               "memory.usage_in_bytes", "total_active_file", "total_inactive_file"};
constexpr Controller kVersion2{"/sys/fs/cgroup", "memory.max", "memory.current", "active_file",
                               "inactive_file"};

bool read_number(const std::string& path, std::size_t& value) {  // false for "max"
  std::ifstream file(path);
  return static_cast<bool>(file >> value);
}

std::size_t left_in_machine(const std::string& root) {
  std::ifstream file(root + "/proc/meminfo");
  std::string name, rest;
  for (std::size_t kilobytes = 0; file >> name >> kilobytes && std::getline(file, rest);)
    if (name == "MemAvailable:") return kilobytes << 10;
  return kAny;
}

std::size_t left_in_group(const Controller& controller, const std::string& folder) {
  std::size_t limit = 0, usage = 0, cached = 0;
  if (!read_number(folder + "/" + controller.limit, limit) ||
      !read_number(folder + "/" + controller.usage, usage))
    return kAny;
  std::ifstream stat(folder + "/memory.stat");
  std::string name;
  for (std::size_t bytes = 0; stat >> name >> bytes;)
    if (name == controller.active_file || name == controller.inactive_file) cached += bytes;
  const std::size_t held = usage - std::min(usage, cached);
  return limit - std::min(limit, held);
}

// In the group at `path` and in every one around it. A container may not see its own path; then the
// mount's root is its group.
std::size_t left_in_groups(const Controller& controller, const std::string& root,
                           std::string path) {
  const std::string mount = root + controller.mount;
  std::size_t left = kAny;
  for (;;) {
    left = std::min(left, left_in_group(controller, std::string(mount).append(path)));
    const std::size_t slash = path.rfind('/');
    if (slash == std::string::npos) return left;
    path.resize(slash);
  }
}

bool names_memory(const std::string& controllers) {
  std::istringstream in(controllers);
  for (std::string name; std::getline(in, name, ',');)
    if (name == "memory") return true;
  return false;
}

}  // namespace

std::size_t available_memory(const std::string& root) {
  std::size_t left = left_in_machine(root);
  std::ifstream groups(root + "/proc/self/cgroup");  // lines "number:controllers:path"
  std::string number, controllers, path;
  while (std::getline(groups, number, ':') && std::getline(groups, controllers, ':') &&
         std::getline(groups, path)) {
    if (controllers.empty()) left = std::min(left, left_in_groups(kVersion2, root, path));
    if (names_memory(controllers)) left = std::min(left, left_in_groups(kVersion1, root, path));
  }
  return left;
}

std::size_t resident_memory() {
  std::ifstream file("/proc/self/statm");
  std::size_t mapped = 0, resident = 0;
  if (!(file >> mapped >> resident)) return 0;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace moelab
