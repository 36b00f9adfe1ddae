// What memory the system has left for this process.
#pragma once
#include <cstddef>
#include <string>

namespace moelab {

// Bytes that this process can still take without swapping or being killed: what the machine has
// (MemAvailable of /proc/meminfo), or less where a control group around the process, of version 1
// or 2, limits it. The largest number where the system does not tell. `root` stands before /proc
// and /sys.
std::size_t available_memory(const std::string& root = "");
// Bytes that this process holds in memory; 0 where the system does not tell.
std::size_t resident_memory();

}  // namespace moelab
