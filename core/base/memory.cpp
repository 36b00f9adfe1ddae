#include "core/base/memory.h"

#include <fstream>
#include <limits>
#include <string>

namespace moelab {

std::size_t available_memory() {
  std::ifstream file("/proc/meminfo");
  std::string name, rest;
  for (std::size_t kilobytes = 0; file >> name >> kilobytes && std::getline(file, rest);)
    if (name == "MemAvailable:") return kilobytes << 10;
  return std::numeric_limits<std::size_t>::max();
}

}  // namespace moelab
