// What memory the system has left.
#pragma once
#include <cstddef>

namespace moelab {

// Bytes that processes can still take without swapping (MemAvailable of /proc/meminfo); the
// largest number where the system does not tell.
std::size_t available_memory();

}  // namespace moelab
